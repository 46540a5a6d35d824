/** Histories with a theme: what meets in them rarely meets where everything is drawn. */
import { below, choose } from '../engine/random.ts';
import { PLAIN_HABITS, type Habits } from './clients/habits.ts';
import type { FaultKind, Moment, PlannedFault } from './faults.ts';
import { type History, PATIENT_MS, type PlannedCall } from './history.ts';
import { PLAIN_SERVER, type ServerTraits } from './servers/traits.ts';
import { behindModern } from './modern-plans.ts';
import type { Tool } from './servers/tools.ts';
import { USUAL_SETTINGS } from './settings.ts';

type Some<Item> = readonly [Item, ...Item[]];

/** Makes another history of one. @param name of what is drawn */
type Theme = (history: History, name: string) => History;

/** Of so many histories, one has a theme. */
const ONE_IN = 60;
/** And one has that of the other direction. */
const ONE_IN_MODERN = 12;

const THEMES = {
  /** Clients read slowly what a tool reports, and processes drain meanwhile. */
  'slow readers': (history, name) => ({
    ...plain(history, name, ['reports'], { readsSlowly: true }),
    // What comes after such a message waits for the client.
    server: { ...PLAIN_SERVER, reports: 'at-once' },
    faults: faultsOf(name, 3, ['drain'], ['acted', 'asked', 'ended']),
  }),
  /** A process parks few calls, whose answers are long on their way. */
  'few places': (history, name) => {
    const { calls, ...rest } = plain(history, name, ['together'], { answersOneByOne: true });
    return {
      ...rest,
      gateway: { ...USUAL_SETTINGS, maxParked: 2 },
      server: { ...PLAIN_SERVER, takesAnswersMs: 1_500 },
      calls: calls.map((call) => ({ ...call, caller: 'ada' })),
    };
  },
  /** The clock of the store steps, and an owner dies at once, before it has renewed its lease. */
  'clock of the store': (history, name) => ({
    ...plain(history, name, ['twice', 'turns', 'slow'], {}),
    faults: [0, 1].flatMap((pair) => {
      const owner = faultOf(`${name}:${pair}`, 2 * pair, ['vanish', 'kill'], ['asked']);
      const clock = { id: 2 * pair + 1, kind: 'store-clock', afterMs: 0 } as const;
      return [{ ...owner, ...clock }, owner];
    }),
  }),
  /** There is garbage in keys of the store, and owners die. */
  garbage: (history, name) => ({
    ...plain(history, name, ['twice', 'turns', 'beside'], {}),
    faults: [
      ...faultsOf(name, 2, ['store-poisoned'], ['shown', 'called']),
      faultOf(`${name}:end`, 2, ['vanish', 'kill'], ['shown', 'retried']),
    ],
  }),
  /** Whoever gets messages through the store finds no queue there. */
  'no queues': (history, name) => ({
    ...plain(history, name, ['twice', 'turns', 'together'], {}),
    relay: 'redis',
    faults: faultsOf(name, 2, ['store-queues-poisoned'], ['called', 'shown']),
  }),
  /** A server opens the streams of sessions slowly, and processes end. */
  'slow streams': (history, name) => ({
    ...plain(history, name, ['mixed', 'beside', 'twice'], {}),
    server: { ...slowToOpen(name), endsConnectionsMs: choose(`${name}:ends`, [null, 500, 900]) },
    faults: faultsOf(name, 3, ['kill', 'vanish', 'drain'], ['shown', 'retried', 'answered']),
  }),
  /** The server is away for a while, and other callers come when it is back. It opens the streams of sessions slowly. */
  outage: (history, name) => {
    const { calls, ...rest } = plain(history, name, ['mixed', 'beside'], {});
    const away = { ...faultOf(name, 0, ['partition'], ['called', 'shown']), afterMs: 0, nth: 0 };
    return {
      ...rest,
      replicas: 1,
      server: slowToOpen(name),
      calls: calls.map((call, nth) => ({
        ...call,
        caller: `caller${call.id}`,
        atMs: nth === 0 ? 0 : BACK_MS + call.atMs,
      })),
      faults: [away, { ...away, id: 1, kind: 'reset', afterMs: 40 }],
    };
  },
  /** Clients read nothing of what a tool reports. */
  unread: (history, name) => ({
    ...plain(history, name, ['reports'], { readsNothing: true }),
    server: { ...PLAIN_SERVER, reports: 'at-once' },
  }),
  /** Tools return large pictures. */
  pictures: (history, name) => {
    const { calls, ...rest } = plain(history, name, ['plain', 'twice'], {});
    return { ...rest, server: { ...PLAIN_SERVER, draws: true }, calls: calls.slice(0, FEW) };
  },
  /** Clients want what the server logs, and it has too much to do when it is told so. */
  levels: (history, name) => ({
    ...plain(history, name, ['plain', 'twice'], { wantsLog: true }),
    server: { ...PLAIN_SERVER, logs: true },
  }),
  /** A server only repeats what was missed, and calls are to be left to one that does more. */
  repetitions: (history, name) => {
    const { calls, ...rest } = plain(history, name, ['twice', 'slow', 'slow'], {});
    return {
      ...rest,
      replicas: 1,
      server: { ...PLAIN_SERVER, onlyRepeats: true, endsConnectionsMs: 500 },
      gateway: { ...USUAL_SETTINGS, release: 'auto' },
      calls: calls.map((call) => ({
        ...call,
        thinkMs: 5_000 + call.thinkMs,
        patienceMs: PATIENT_MS,
      })),
    };
  },
  /** A process hangs until another one has its home, and still reads the stream beside the calls of both. */
  frozen: (history, name) => {
    const { calls, ...rest } = plain(history, name, ['beside', 'mixed'], {});
    return {
      ...rest,
      calls: calls.map((call) => ({ ...call, caller: 'ada' })),
      faults: faultsOf(name, 2, ['freeze'], ['called', 'shown', 'answered']).map((fault) => ({
        ...fault,
        forMs: choose(`${name}:${fault.id}:for`, [5_200, 6_500, 9_000]),
      })),
    };
  },
  /** Users think for longer than the tokens of their clients last, and the server wants to be pinged meanwhile. */
  pings: (history, name) => {
    const { calls, ...rest } = plain(history, name, ['twice', 'plain', 'plain'], {});
    return {
      ...rest,
      server: { ...PLAIN_SERVER, expectsPings: true },
      gateway: { ...USUAL_SETTINGS, identity: 'jwt-forwarded', pingInterval: '4s' },
      calls: calls.map((call) => ({ ...call, thinkMs: 20_000 + 2 * call.thinkMs })),
    };
  },
  /** Tools work for long, no connection is held for so long, and the processes are restarted that have their calls. */
  'handed over': (history, name) => {
    const { calls, ...rest } = plain(history, name, ['slow', 'twice'], {});
    return {
      ...rest,
      gateway: { ...USUAL_SETTINGS, maxHold: '2s' },
      calls: calls.map((call) => ({ ...call, workMs: 12_000 + call.workMs })),
      faults: faultsOf(name, 4, ['drain', 'drain', 'kill'], ['called', 'shown', 'resumed']).map(
        (fault) => ({ ...fault, restartMs: 10 }),
      ),
    };
  },
  /** A server asks for forms of OpenAI's extension, and processes end. */
  forms: (history, name) => ({
    ...plain(history, name, ['twice', 'turns', 'together'], {}),
    server: { ...PLAIN_SERVER, asksForms: true },
    faults: faultsOf(name, 2, ['kill', 'vanish', 'drain'], ['shown', 'retried', 'answered']),
  }),
  /** Legacy clients in front of a server of 2026-07-28. */
  'modern server': behindModern,
} satisfies Record<string, Theme>;

export type ThemeName = keyof typeof THEMES;

/** Each theme has seeds of its own, so that one more changes nothing of those of others. */
export function themeOf(seed: number): ThemeName | null {
  const names = Object.keys(THEMES) as ThemeName[];
  const oneIn = (name: ThemeName) => (name === 'modern server' ? ONE_IN_MODERN : ONE_IN);
  return names.find((name) => below(`theme:${seed}:${name}`, oneIn(name)) === 0) ?? null;
}

/** @returns the history as the theme of its seed has it, if it has one */
export function withTheme(history: History): History {
  const theme = themeOf(history.seed);
  return theme === null ? history : THEMES[theme](history, `theme:${history.seed}:${theme}`);
}

/** Nothing else is in it. */
function plain(
  history: History,
  name: string,
  tools: Some<Tool>,
  habits: Partial<Habits>,
): History {
  const calls = history.calls.map((call): PlannedCall => ({
    ...call,
    tool: choose(`${name}:${call.id}:tool`, tools),
    isDoubled: false,
    habits: { ...PLAIN_HABITS, ...habits },
    dialect: null,
  }));
  return {
    ...history,
    ...{ replicas: 3, workers: 1, hasStore: true, calls, faults: [], legacy: [], listeners: [] },
    ...{ gateway: USUAL_SETTINGS, server: PLAIN_SERVER },
  };
}

const FEW = 3;
/** When an outage is over. */
const BACK_MS = 12_000;
/** Less than callers wait for the stream. */
const SLOWEST_OPENING_MS = 1_500;

function slowToOpen(name: string): ServerTraits {
  const opensAfterMs = 300 + below(`${name}:opens`, SLOWEST_OPENING_MS - 300);
  return { ...PLAIN_SERVER, secondStream: 'replaces', opensAfterMs };
}

const LATEST_NTH = 5;

function faultsOf(
  name: string,
  count: number,
  kinds: Some<FaultKind>,
  moments: Some<Moment>,
): PlannedFault[] {
  return Array.from({ length: count }, (_, id) => faultOf(`${name}:${id}`, id, kinds, moments));
}

function faultOf(
  name: string,
  id: number,
  kinds: Some<FaultKind>,
  moments: Some<Moment>,
): PlannedFault {
  return {
    id,
    kind: choose(`${name}:kind`, kinds),
    moment: choose(`${name}:moment`, moments),
    nth: below(`${name}:nth`, LATEST_NTH),
    afterMs: choose(`${name}:after`, [0, 0, 5, 40, 700]),
    where: 'here',
    between: 'server',
    forMs: 3_000,
    restartMs: choose(`${name}:restart`, [null, 10, 1_500]),
  };
}
