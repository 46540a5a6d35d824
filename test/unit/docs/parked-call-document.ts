/** docs/parked-call.md, made from the rows of the table that moves calls. */
import {
  TIMERS,
  type EventName,
  type StateName,
  type TimerName,
} from '../../../src/calls/machine/states.ts';
import { TRANSITIONS } from '../../../src/calls/machine/table.ts';

type Row = (typeof TRANSITIONS)[number];

const STATES: Readonly<Record<StateName, string>> = {
  running: 'A client waits, and the server works.',
  gathering:
    'Questions have come; the call waits a moment for others that come together with them.',
  parked: 'The client has the questions. Nobody is connected, and the server waits.',
  resuming: 'A retry was accepted, and its answers are on their way to the server.',
  idle: 'As parked, but there is nothing to answer: the server took its questions back, or the client was told to come again.',
  settled: 'The server ended the call while nobody was connected. The outcome waits for the retry.',
  suspended:
    'The server ended the call and wants URLs visited first (-32042). The retry makes the call anew.',
  broken:
    'The stream from the server is lost and is being resumed. What was going on goes on after that.',
  cancelling: 'The server was told to stop. Its stream may still end by itself.',
  done: 'Over. The outcome is kept for a while, for a retry that is repeated.',
};

const EVENTS: Readonly<Record<EventName, string>> = {
  asked: 'The server asks something.',
  withdrawn: 'The server takes a question back.',
  outcome: 'The server ends the call with a result or an error.',
  urlsRequired: 'The server ends the call with an error that names URLs to visit first (-32042).',
  gathered: 'No more questions came within the moment.',
  retry: 'The client comes back with a `requestState`.',
  posted: 'The server has taken the answers.',
  postRefused: 'The server has not taken the answers.',
  legClosed: 'A client that waited is gone.',
  expired: 'A time limit is over.',
  held: 'A client has waited for as long as `calls.maxHold` allows.',
  interrupted: 'The stream from the server broke and can be resumed.',
  resumed: 'The stream is back.',
  lost: 'The stream is gone for good.',
  ended: 'The time that a cancelled call has to end by itself is over.',
  drain: 'The process stops.',
  takenOver: 'Another replica holds the call now.',
  shutOut: 'The server refuses the credentials with which the stream is to be read on.',
  evict: 'The place is needed for another call.',
};

const LIMITS: Readonly<Record<TimerName, string>> = {
  gather: 'a moment for questions that come together',
  hold: '`calls.maxHold`',
  run: '`calls.maxDuration`',
  park: '`parking.ttl`',
  call: '`parking.callTtl`',
  grace: 'a grace of 2 s',
  redeliver: '`parking.redeliver`',
};

const ROUGH: ReadonlySet<StateName> = new Set(['broken', 'cancelling']);

/** The document, before it is formatted. */
export function parkedCallDocument(): string {
  const edges = edgesOf(TRANSITIONS);
  const isRough = ({ from, to }: Edge) => ROUGH.has(from) || ROUGH.has(to);
  return `# The life of a parked call

<!-- Made from src/calls/machine/table.ts by test/unit/docs/parked-call.test.ts; "npx vitest run test/unit/docs --update" makes it anew. -->

A legacy server asks in the middle of a call and keeps a stream open for the answer. The client gets the question as
the result of its request, and comes back with the answer in another request. In between the call is **parked**. It is
at any time in one of the states below, and only the rows of one table move it. The table is pure: it knows no
network and no clock. What it decides is carried out by the bridge, and each of its laws is tested over
thousands of random histories; [architecture.md](architecture.md) names them.

At log level \`trace\` each step is a line, \`call.moved\`, with the rule that made it.

## When all goes well

A call runs, gathers questions, is parked, resumes with the answers, and runs on, in as many rounds as the server
needs.

${diagram(
  edges.filter((edge) => !isRough(edge)),
  true,
)}

## When it does not

Streams break, clients go away, time is over, and processes stop.

${diagram(edges.filter(isRough), false)}

## States

${table(
  ['State', 'Means', 'Ends at the latest after'],
  entries(STATES).map(([state, means]) => [
    code(state),
    means,
    TIMERS[state].map((timer) => LIMITS[timer]).join(', '),
  ]),
)}

Of several limits the first that is over counts. \`calls.maxHold\` and the moment for questions end the state and not
the call.

## Events

${table(
  ['Event', 'Means'],
  entries(EVENTS).map(([event, means]) => [code(event), means]),
)}

## Rules

The first row that fits counts. An event that no row mentions for a state changes nothing.

${table(
  ['Rule', 'From', 'On', 'To', 'Why'],
  TRANSITIONS.map((row) => [
    row.rule,
    row.from.map(code).join(' '),
    code(row.on),
    stays(row) ? 'stays' : row.to.map(code).join(' '),
    row.why,
  ]),
)}
`;
}

interface Edge {
  readonly from: StateName;
  readonly to: StateName;
  readonly on: readonly EventName[];
}

/** Every change of state, with the events that may lead to it. */
function edgesOf(rows: readonly Row[]): Edge[] {
  const edges = new Map<string, Edge>();
  for (const row of rows.filter((candidate) => !stays(candidate))) {
    for (const from of row.from) {
      for (const to of row.to.filter((state) => state !== from)) {
        const on = edges.get(`${from} ${to}`)?.on ?? [];
        const all = on.includes(row.on) ? on : [...on, row.on];
        edges.set(`${from} ${to}`, { from, to, on: all });
      }
    }
  }
  return [...edges.values()];
}

/** Rows that lead from several states to the same ones leave each where it is. */
function stays({ from, to }: Row): boolean {
  return from.length === to.length && from.every((state) => to.includes(state));
}

function diagram(edges: readonly Edge[], isWhole: boolean): string {
  const lines = edges.map(({ from, to, on }) => `  ${from} --> ${to}: ${on.join(', ')}`);
  const ends = isWhole ? ['  [*] --> running', ...lines, '  done --> [*]'] : lines;
  return ['```mermaid', 'stateDiagram-v2', ...ends, '```'].join('\n');
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

function code(text: string): string {
  return `\`${text}\``;
}

function entries<Name extends string>(record: Readonly<Record<Name, string>>): [Name, string][] {
  return Object.entries(record) as [Name, string][];
}
