/** How much processor time a process has used, as Linux counts it. */
import { readdirSync, readFileSync } from 'node:fs';

/**
 * Reads the processor time of a process so far: user and system time of all its threads, from the
 * statistics of the scheduler, which count in ns.
 * @returns ms; `null` where there is no such file
 */
export function cpuTimeMs(pid: number): number | null {
  try {
    const threads = readdirSync(`/proc/${pid}/task`);
    const times = threads.map((thread) => {
      const [ranForNs] = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ');
      return Number(ranForNs) / 1_000_000;
    });
    return times.reduce((sum, ms) => sum + ms, 0);
  } catch {
    return null;
  }
}
