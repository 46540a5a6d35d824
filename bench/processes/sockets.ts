/** How many sockets a process has open, as Linux tells. */
import { readdirSync, readlinkSync } from 'node:fs';

/** `null` where there is no /proc. */
export function openSockets(pid: number): number | null {
  const folder = `/proc/${pid}/fd`;
  try {
    return readdirSync(folder).filter((name) => isSocket(`${folder}/${name}`)).length;
  } catch {
    return null;
  }
}

function isSocket(path: string): boolean {
  try {
    return readlinkSync(path).startsWith('socket:');
  } catch {
    // Closed since the folder was read.
    return false;
  }
}
