/** Legacy clients in front of a server over stdio: what a plain call costs, and what a session takes. */
import { compareWays, type WayRow } from '../clients/ways.ts';
import { residentBytes } from '../processes/resident.ts';
import type { LegacyOptions } from '../sizes.ts';
import { startWays, type LegacyWay, type PathName } from './paths.ts';

export type LegacyRow = WayRow<PathName>;

export interface LegacyResult {
  readonly rows: readonly LegacyRow[];
  /** What one more session takes in the program itself, without the process of the server. */
  readonly sessions: readonly { readonly path: PathName; readonly bytes: number }[];
}

const CALLERS = [1, 16];

export async function measureLegacy(
  folder: string,
  { rounds, runMs, sessions }: LegacyOptions,
  done: (share: number) => void,
): Promise<LegacyResult> {
  const ways = await startWays(folder);
  try {
    const rows: LegacyRow[] = [];
    for (const callers of CALLERS) {
      rows.push(...(await compareWays(ways, callers, { rounds, runMs })));
      done(rows.length / ways.length / (CALLERS.length + 1));
    }
    const held: { path: PathName; bytes: number }[] = [];
    for (const way of ways) {
      const bytes = await sessionBytes(way, sessions);
      if (bytes !== null) held.push({ path: way.name, bytes });
    }
    return { rows, sessions: held };
  } finally {
    await Promise.all(ways.map((way) => way.stop()));
  }
}

/** @returns `null` where no program is between */
async function sessionBytes(way: LegacyWay, sessions: number): Promise<number | null> {
  const { proxy } = way;
  if (proxy === null) return null;
  const before = await heldBytes(way);
  for (let at = 0; at < sessions; at += 1) await way.open(1);
  return ((await heldBytes(way)) - before) / sessions;
}

/** What a program of Node.js holds after its garbage was collected; what any other one has in use. */
async function heldBytes({ name, proxy }: LegacyWay): Promise<number> {
  if (proxy === null) return 0;
  return name === 'mcp-proxy' ? residentBytes(proxy.pid) : (await proxy.memory()).rssBytes;
}
