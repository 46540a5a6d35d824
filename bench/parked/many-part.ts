/** Many parked calls at once. */
import { part, type Wanted } from '../part.ts';
import { spreadCell } from '../report/table.ts';
import { measureMany, type ManyResult, type ManyRun } from './many.ts';

function wanted(kind: ManyRun['kind'], gateways: number, calls: string): Wanted<ManyResult> {
  const where = gateways === 1 ? 'in one process' : `over ${gateways} processes`;
  return {
    what: `parked at once, ${kind} ${where}, while others are served`,
    against: 'the rate before',
    goal: `${calls} at full rate`,
    measured: ({ runs }) => {
      const run = runs.find((one) => one.kind === kind && one.gateways === gateways);
      if (run === undefined) return 'lost in the noise';
      const why = run.failure ?? run.loweredBy.join(', ');
      const limit = run.parked < run.wanted ? ` (no more: ${why})` : '';
      if (run.found === null) return `${run.parked} parked, then: ${why}`;
      return `${run.parked} at ${Math.round(run.found.serving.median * 100)} %${limit}`;
    },
  };
}

/** Calls a second in which calls can be parked on a slow machine. */
const PARKED_PER_S = 200;

export const many = part({
  name: 'many',
  estimateMs: ({ many: { held, heldOverThree, released, serving } }) => {
    const slicesMs = 16 * (serving.slices * serving.sliceMs + serving.warmUpMs);
    return 20_000 + slicesMs + ((held + heldOverThree + released) * 1_000) / PARKED_PER_S;
  },
  measure: ({ folder, options, done }) => measureMany(folder, options.many, done),
  section: ({ limits, runs }) => ({
    title: 'Many parked calls at once',
    notes: [
      'Memory and sockets are those of the gateways, over all calls, after garbage collection. "serving": calls/s of one',
      'connection while they are parked, to the rate before; both beside a gateway in which none are parked, in turns.',
      'Where there are three gateways, half of the answers go to one that does not hold the call.',
      ...limits,
    ],
    tables: [
      {
        rows: [
          [
            '',
            'wanted',
            'parked',
            'in s',
            'RSS KiB each',
            'heap KiB each',
            'sockets each',
            'serving',
            'answered after',
            'of these relayed',
          ],
          ...runs.map(row),
        ],
      },
    ],
    after: runs.flatMap((run) => why(run)),
  }),
  wanted: [
    wanted('held', 1, '9,000'),
    wanted('held', 3, '20,000'),
    wanted('released', 1, '100,000'),
  ],
});

const nameOf = ({ kind, gateways }: ManyRun) =>
  `${kind}, ${gateways === 1 ? 'one process' : `${gateways} processes`}`;

function row(run: ManyRun): string[] {
  const { wanted: calls, parked, parkMs, found } = run;
  const head = [nameOf(run), String(calls), String(parked), (parkMs / 1_000).toFixed(0)];
  if (found === null) return [...head, '-', '-', '-', '-', '-', '-'];
  return [
    ...head,
    (found.rssBytesEach / 1_024).toFixed(2),
    (found.heapUsedBytesEach / 1_024).toFixed(2),
    found.socketsEach?.toFixed(2) ?? '-',
    spreadCell(found.serving, 2),
    String(found.answered),
    run.gateways === 1 ? '' : String(found.relayed),
  ];
}

function why(run: ManyRun): string[] {
  const lowered =
    run.tried < run.wanted
      ? [`${nameOf(run)}: ${run.tried} instead of ${run.wanted}, for ${run.loweredBy.join(', ')}.`]
      : [];
  const failed =
    run.failure === null
      ? []
      : [`${nameOf(run)}: ${run.parked} of ${run.tried} were parked: ${run.failure}.`];
  return [...lowered, ...failed];
}
