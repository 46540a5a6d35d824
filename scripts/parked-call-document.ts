/** docs/parked-call.md, made from the rows of the table that moves calls. */
import {
  EVENT_MEANINGS,
  STATE_MEANINGS,
  TIMER_MEANINGS,
  TIMERS,
  type EventName,
  type StateName,
} from '../src/calls/machine/states.ts';
import { TRANSITIONS } from '../src/calls/machine/table.ts';

type Row = (typeof TRANSITIONS)[number];

/** The exchange with the server goes on. */
const OPEN: readonly StateName[] = [
  'running',
  'batching',
  'answering',
  'parked',
  'runningDetached',
];
const ROUGH: ReadonlySet<StateName> = new Set(['cancelling']);

/** The document, before it is formatted. */
export function parkedCallDocument(): string {
  const edges = edgesOf(TRANSITIONS);
  const isRough = ({ from, to }: Edge) => ROUGH.has(from) || ROUGH.has(to);
  return `# The life of a parked call

<!-- Made from src/calls/machine by scripts/parked-call-document.ts; "npx vitest run test/unit/docs --update" writes it. -->

A call is in one of the states below, and only the rows of one pure table move it.
[architecture.md](architecture.md#the-life-of-a-parked-call) names the files and the laws. At log level \`trace\` each step is a
line, \`call.moved\`, with the rule that made it.

## When all goes well

${diagram(
  edges.filter((edge) => !isRough(edge)),
  true,
)}

## When it does not

${diagram(edges.filter(isRough), false)}

## States

${table(
  ['State', 'Means', 'Ends at the latest after'],
  entries(STATE_MEANINGS).map(([state, means]) => [
    code(state),
    means,
    TIMERS[state].map((timer) => TIMER_MEANINGS[timer]).join(', '),
  ]),
)}

In the first five states the exchange with the server goes on, and the state also says whether its stream is \`open\` or
\`broken\`. A broken stream is resumed: retries wait for it, and \`calls.maxHold\` does not count.

## Events and rules

At an event the first rule that fits the state counts. If none fits, nothing changes. _Open_: the first five states.

${entries(EVENT_MEANINGS).map(eventSection).join('\n\n')}
`;
}

/** An event, and the rules that it sets off. */
function eventSection([event, means]: [EventName, string]): string {
  const rules = TRANSITIONS.filter(({ on }) => on === event).map((row) => {
    const to = stays(row) ? 'stays' : statesOf(row.to);
    return `- **${row.rule}**: ${statesOf(row.from)} → ${to}: ${row.why}`;
  });
  return [`### \`${event}\``, '', means, '', ...rules].join('\n');
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

/** Names the states in which the exchange goes on together, if they are all there. */
function statesOf(states: readonly StateName[]): string {
  if (!OPEN.every((state) => states.includes(state))) return states.map(code).join(' ');
  const others = states.filter((state) => !OPEN.includes(state));
  return ['_open_', ...others.map(code)].join(' ');
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
