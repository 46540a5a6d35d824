/** Released calls over replicas that are all replaced. */
import { part } from '../part.ts';
import { measureRolling } from './rolling.ts';

/** Calls a second that three replicas park on a slow machine. */
const PARKED_PER_S = 200;

export const rolling = part({
  name: 'rolling',
  estimateMs: ({ rolling: { count } }) => 60_000 + (count * 1_000) / PARKED_PER_S,
  measure: ({ folder, options, done }) => measureRolling(folder, options.rolling, done),
  section: (result) => ({
    title: `Calls released over three replicas ${result.withRedis ? 'with Redis' : 'without Redis'}, which are then replaced one after the other`,
    notes: [
      'Memory is that of the replicas together, after garbage collection. The sample is answered at other replicas than those',
      'that parked the calls, as those are gone; each answer must come back in the result of its own call.',
      ...result.limits,
    ],
    tables: [
      {
        rows: [
          [
            'wanted',
            'parked',
            'in s',
            'RSS KiB each',
            'replaced in s',
            'answered',
            'right',
            'resumed',
          ],
          [
            String(result.wanted),
            String(result.parked),
            (result.parkMs / 1_000).toFixed(0),
            (result.rssBytesEach / 1_024).toFixed(2),
            result.replacedMs.map((ms) => (ms / 1_000).toFixed(1)).join(', '),
            String(result.answers.asked),
            String(result.answers.right),
            String(result.resumed),
          ],
        ],
      },
    ],
    after: [
      ...(result.tried < result.wanted
        ? [`${result.tried} instead of ${result.wanted}, for ${result.loweredBy.join(', ')}.`]
        : []),
      ...(result.failure === null
        ? []
        : [`${result.parked} of ${result.tried} were parked: ${result.failure}.`]),
      ...(result.answers.firstWrong === null
        ? []
        : [`The first that was not right: ${result.answers.firstWrong}.`]),
    ],
  }),
  wanted: [
    {
      what: 'parked, released over 3 replicas, all replaced; a sample answered',
      against: '-',
      goal: '1,000,000, of them 10,000 answered, each right',
      measured: ({ parked, answers: { asked, right } }) =>
        `${parked}, of them ${asked} answered, ${right} right`,
    },
  ],
});
