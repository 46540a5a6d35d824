/** How much memory a process has in use, as Linux tells. */
import { readFileSync } from 'node:fs';

/** In bytes, without swap; NaN where it cannot be read. */
export function residentBytes(pid: number): number {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? NaN) * 1_024;
  } catch {
    // It has ended.
    return NaN;
  }
}
