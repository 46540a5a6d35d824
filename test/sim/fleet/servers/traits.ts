/** What a simulated server is like. Each seed has one server, and draws what it does. */
import { below, choose } from '../../engine/random.ts';

export interface ServerTraits {
  /** `modern` is 2026-07-28 over HTTP, without a session. */
  readonly transport: 'streamable-http' | 'http-sse' | 'stdio' | 'modern' | 'modern-stdio';
  /** The official SDK that it is built with, which runs as it is; `null` for a model. */
  readonly sdk: 'typescript-1' | null;
  /** Whether its streams can be resumed: its events have ids, and it keeps them. */
  readonly hasStore: boolean;
  /** What becomes of a second standalone stream of a session. */
  readonly secondStream: 'refused' | 'replaces';
  /** Of the SDK: what becomes of a stream that is read when it is resumed. */
  readonly secondReader: 'refused' | 'replaces';
  /** After how long it ends the connection of the stream of a call, to have its client come back; `null` for never. */
  readonly endsConnectionsMs: number | null;
  /** Whether it ends each standalone stream at once. What it asks there is lost. */
  readonly endsStandalone: boolean;
  /** When it forgets all of its sessions, and their calls with them; `null` for never. */
  readonly forgetsAtMs: number | null;
  /** Whether it pings its clients. */
  readonly pings: boolean;
  /** Whether it sends each question twice. */
  readonly repeats: boolean;
  /** How long its response to the answer to a question takes. */
  readonly takesAnswersMs: number;
  /** How a tool says much about its progress: in many messages at once, in one, or one after the other. */
  readonly reports: 'burst' | 'at-once' | 'steadily';
  /** How long it takes to open the stream of a session. What it asks there meanwhile is lost. */
  readonly opensAfterMs: number;
  /** Whether the head of the response to a GET waits for the first message. */
  readonly holdsHeads: boolean;
  /** Whether a stream of a call that is resumed repeats what was missed, a moment later, and then has nothing more. */
  readonly onlyRepeats: boolean;
  /** Whether it looks if its sessions are pinged while they wait for answers. */
  readonly expectsPings: boolean;
  /** Whether it logs for its clients, and has too much to do when it is told so for the first time. */
  readonly logs: boolean;
  /** Whether a result has a picture in it, which is large. */
  readonly draws: boolean;
  /** Whether it asks for forms of OpenAI's extension. */
  readonly asksForms: boolean;
  /** Whether it replies with JSON where it has nothing to ask. */
  readonly repliesWithJson: boolean;
  /** Over stdio: how long a process goes on when its input has ended. It does not heed SIGTERM meanwhile. */
  readonly lingersMs: number;
  /** Over stdio: whether it writes what is no message. */
  readonly writesLog: boolean;
  /** Of a modern one: how often it has a request sent again before it begins to work, without a question. */
  readonly dallies: number;
  /** Of a modern one: whether its tools want a parameter in a header, too. */
  readonly wantsHeaders: boolean;
  /** Of a modern one: after how long it ends the streams of those who listen; `null` for never. */
  readonly endsListeningMs: number | null;
}

export const PLAIN_SERVER: ServerTraits = {
  transport: 'streamable-http',
  sdk: null,
  hasStore: true,
  secondStream: 'refused',
  secondReader: 'replaces',
  endsConnectionsMs: null,
  endsStandalone: false,
  forgetsAtMs: null,
  pings: false,
  repeats: false,
  takesAnswersMs: 0,
  reports: 'burst',
  opensAfterMs: 0,
  holdsHeads: false,
  onlyRepeats: false,
  expectsPings: false,
  logs: false,
  draws: false,
  asksForms: false,
  repliesWithJson: false,
  lingersMs: 0,
  writesLog: false,
  dallies: 0,
  wantsHeaders: false,
  endsListeningMs: null,
};

const LINGERS_MS = [0, 0, 700, 6_000] as const;
const LONGEST_RUN_MS = 14_000;
const SLOWEST_TAKING_MS = 1_500;
const CONNECTION_MS = { least: 400, range: 4_000 } as const;

/** Of so many servers over Streamable HTTP, one is built with the SDK. */
const SDK_ONE_IN = 10;
/** What no server of the SDK does: it refuses a second stream, and what it is told it takes at once. */
const NOT_OF_SDK = {
  secondStream: 'refused',
  endsStandalone: false,
  repeats: false,
  takesAnswersMs: 0,
  holdsHeads: false,
  repliesWithJson: false,
} as const;

export function traitsOf(seed: number): ServerTraits {
  const drawn = modelOf(seed);
  const isModel = drawn.transport !== 'streamable-http' || below(`sdk:${seed}`, SDK_ONE_IN) > 0;
  if (isModel) return drawn;
  const secondReader = choose<ServerTraits['secondReader']>(`sdk:${seed}:second-reader`, [
    'replaces',
    'refused',
  ]);
  return { ...drawn, sdk: 'typescript-1', secondReader, ...NOT_OF_SDK };
}

function modelOf(seed: number): ServerTraits {
  const number = (why: string, end: number) => below(`server:${seed}:${why}`, end);
  const oneIn = (count: number, why: string) => number(why, count) === 0;
  if (oneIn(7, 'stdio')) {
    return {
      ...PLAIN_SERVER,
      transport: 'stdio',
      hasStore: false,
      pings: oneIn(4, 'pings'),
      repeats: oneIn(5, 'repeats'),
      lingersMs: choose(`server:${seed}:lingers`, LINGERS_MS),
      writesLog: oneIn(3, 'writes-log'),
    };
  }
  if (oneIn(3, 'plain')) return PLAIN_SERVER;
  const isOldest = oneIn(6, 'oldest');
  const hasStore = !isOldest && !oneIn(4, 'storeless');
  const endsConnections = hasStore && oneIn(4, 'ends');
  return {
    transport: isOldest ? 'http-sse' : 'streamable-http',
    sdk: null,
    hasStore,
    secondStream: oneIn(2, 'second') ? 'refused' : 'replaces',
    secondReader: 'replaces',
    endsConnectionsMs: endsConnections
      ? CONNECTION_MS.least + number('connection', CONNECTION_MS.range)
      : null,
    endsStandalone: !isOldest && oneIn(8, 'ends-standalone'),
    forgetsAtMs: oneIn(6, 'forgets') ? number('forgets-at', LONGEST_RUN_MS) : null,
    pings: oneIn(4, 'pings'),
    repeats: oneIn(5, 'repeats'),
    takesAnswersMs: oneIn(4, 'takes-slowly') ? number('takes-answers', SLOWEST_TAKING_MS) : 0,
    reports: choose(`server:${seed}:reports`, ['burst', 'at-once', 'steadily']),
    ...{ opensAfterMs: 0, onlyRepeats: false, expectsPings: false, logs: false, draws: false },
    asksForms: false,
    holdsHeads: !isOldest && oneIn(6, 'holds'),
    repliesWithJson: oneIn(3, 'json'),
    lingersMs: 0,
    writesLog: false,
    ...{ dallies: 0, wantsHeaders: false, endsListeningMs: null },
  };
}

/** Whether a server speaks 2026-07-28 and nothing else. */
export function isModern({ transport }: ServerTraits): boolean {
  return transport === 'modern' || transport === 'modern-stdio';
}

/** Whether it is a process that the gateway starts. */
export function isOverStdio({ transport }: ServerTraits): boolean {
  return transport === 'stdio' || transport === 'modern-stdio';
}

/** Each trait less. */
export function simplerServers(server: ServerTraits): ServerTraits[] {
  return (Object.keys(PLAIN_SERVER) as (keyof ServerTraits)[])
    .filter((trait) => server[trait] !== PLAIN_SERVER[trait])
    .map((trait) => ({ ...server, [trait]: PLAIN_SERVER[trait] }));
}
