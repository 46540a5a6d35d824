/** What a parked call takes. */
import { part } from '../part.ts';
import { times } from '../report/goals.ts';
import type { Spread } from '../report/statistics.ts';
import { spreadCell } from '../report/table.ts';
import { measureParked, type ParkedCalls, type Taken } from './parked.ts';

export const parked = part({
  name: 'parked',
  estimateMs: ({ parked: { count, releasedCount, warmUp, repetitions, serving } }) => {
    const slicesMs = 8 * (serving.slices * serving.sliceMs + serving.warmUpMs);
    return repetitions * (6_000 + slicesMs + 3 * (count + 3 * warmUp) + 2 * releasedCount);
  },
  measure: ({ upstream, folder, options, done }) =>
    measureParked(upstream, folder, options.parked, done),
  section: ({ count, releasedCount, bareStream, held, released, heldToBare }) => ({
    title: `Memory and sockets of a parked call, ${count} held or ${releasedCount} released at once, ${bareStream.rssBytes.rounds} repetitions in fresh processes`,
    notes: [
      "After garbage collection; the gateway's process only. A held call has two streams upstream: its own,",
      "and its session's standalone one. The floor is one bare stream, held by undici in a process that does",
      'nothing else. "serving": calls/s of one connection while they are parked, to the rate before; both beside',
      'a gateway in which none are parked, in turns of a moment.',
    ],
    tables: [
      {
        rows: [
          [
            '',
            'RSS KiB each',
            'heap used KiB each',
            'external KiB each',
            'sockets each',
            'serving',
            'answered after',
          ],
          row('bare undici stream', bareStream, null),
          row('parked call, held', held, held),
          row('parked call, released', released, released),
          [
            'held to bare',
            spreadCell(heldToBare.rss, 2),
            spreadCell(heldToBare.heap, 2),
            '',
            '',
            '',
            '',
          ],
        ],
      },
    ],
  }),
  wanted: [
    {
      what: 'memory (RSS) per held parked call',
      against: 'one bare undici stream',
      goal: 'at most 2.2 x',
      measured: ({ heldToBare }) => times(heldToBare.rss.median, 2),
    },
    {
      what: 'memory per released parked call',
      against: '-',
      goal: '0 sockets, under 1 KiB',
      measured: ({ released: { sockets, rssBytes, heapUsedBytes } }) =>
        `${sockets?.median.toFixed(2) ?? '?'} sockets, ${kibibytes(rssBytes).median.toFixed(2)} KiB RSS, ${kibibytes(heapUsedBytes).median.toFixed(2)} KiB heap`,
    },
  ],
});

function row(name: string, taken: Taken, calls: ParkedCalls | null): string[] {
  return [
    name,
    spreadCell(kibibytes(taken.rssBytes), 1),
    spreadCell(kibibytes(taken.heapUsedBytes), 2),
    spreadCell(kibibytes(taken.externalBytes), 2),
    taken.sockets?.median.toFixed(2) ?? '-',
    calls === null ? '' : spreadCell(calls.serving, 2),
    calls === null ? '' : String(calls.answered),
  ];
}

function kibibytes({ median, lower, upper, rounds }: Spread): Spread {
  return { median: median / 1_024, lower: lower / 1_024, upper: upper / 1_024, rounds };
}
