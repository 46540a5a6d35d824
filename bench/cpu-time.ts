/** How much processor time a process has used, as Linux counts it. */
import { readFileSync } from 'node:fs';

/** The kernel tells times in hundredths of a second, whatever it counts in itself. */
const TICK_MS = 10;

/** User and system time of the process so far, in ms; `null` where there is no /proc. */
export function cpuTimeMs(pid: number): number | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The second field is the name in parentheses, which may hold spaces.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
  } catch {
    return null;
  }
}
