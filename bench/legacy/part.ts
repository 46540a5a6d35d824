/** Legacy clients in front of a server over stdio. */
import { WAY_HEAD, wayCells } from '../clients/ways.ts';
import { part } from '../part.ts';
import { measureLegacy, type LegacyResult, type LegacyRow } from './legacy.ts';
import type { PathName } from './paths.ts';

export const legacy = part({
  name: 'legacy',
  estimateMs: ({ legacy: { rounds, runMs } }) => 10_000 + 8 * (rounds + 1) * runMs,
  measure: ({ folder, options, done }) => measureLegacy(folder, options.legacy, done),
  section: ({ rows, sessions }) => ({
    title: 'Legacy clients in front of a server over stdio',
    notes: [
      'Calls without questions in one session, by a client that speaks 2025-11-25. `direct` is the pipe of the server itself.',
      'mcp-proxy is measured where it is on the PATH. It has one process of the server for all sessions; the others have one for each.',
    ],
    tables: [
      {
        rows: [WAY_HEAD, ...rows.map(wayCells)],
      },
      {
        caption: 'One more session, without the process of the server',
        rows: [
          ['path', 'KiB'],
          ...sessions.map(({ path, bytes }) => [path, (bytes / 1_024).toFixed(0)]),
        ],
      },
    ],
  }),
  wanted: [
    {
      what: 'calls/s of a legacy client over stdio, 16 at once in a session',
      against: 'supergateway',
      goal: 'more',
      measured: (result) => ratioTo(result, ({ callsPerSecond }) => callsPerSecond),
    },
    {
      what: 'CPU of a call, the same',
      against: 'supergateway',
      goal: 'less',
      measured: (result) => ratioTo(result, ({ cpuMicroseconds }) => cpuMicroseconds ?? NaN),
    },
  ],
});

/** The figure of the gateway by that of supergateway. */
function ratioTo({ rows }: LegacyResult, figure: (row: LegacyRow) => number): string {
  const of = (name: PathName) =>
    rows.filter(({ path, callers }) => path === name && callers === 16);
  const [own, other] = [of('gateway')[0], of('supergateway')[0]];
  if (own === undefined || other === undefined) return 'not measured';
  return `${(figure(own) / figure(other)).toFixed(2)} x`;
}
