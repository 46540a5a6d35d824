/** The limit of open files: read, and raised where that is permitted. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

export interface OpenFiles {
  /** What this process and those that it starts can open; `null` if it is unknown. */
  readonly limit: number | null;
  /** How many were asked for. */
  readonly needed: number;
  /** Why there are fewer; `null` if there are enough. */
  readonly problem: string | null;
}

/** Raises the limit of this process to what is needed, if it may; its children inherit it. */
export function askForOpenFiles(needed: number): OpenFiles {
  const before = openFileLimit();
  if (before === null) return { limit: null, needed, problem: 'the limit cannot be read' };
  if (before >= needed) return { limit: before, needed, problem: null };
  const { status, error, stderr } = spawnSync(
    'prlimit',
    [`--pid=${process.pid}`, `--nofile=${needed}:${needed}`],
    { encoding: 'utf8' },
  );
  const limit = openFileLimit();
  if (status === 0 && (limit ?? 0) >= needed) return { limit, needed, problem: null };
  const why = error === undefined ? stderr.trim().replace(/^prlimit: /, '') : 'there is no prlimit';
  return { limit, needed, problem: why };
}

/** Node.js raises the soft limit of each process to the hard one, so the hard one counts. */
function openFileLimit(): number | null {
  try {
    const limits = readFileSync('/proc/self/limits', 'utf8');
    const hard = /^Max open files +\d+ +(\d+) /m.exec(limits)?.[1];
    return hard === undefined ? null : Number(hard);
  } catch {
    return null;
  }
}
