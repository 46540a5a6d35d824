/** Whether the process may open as many files and sockets as its configuration can come to need. */
import { readFileSync } from 'node:fs';
import type { Config } from '../config/config.ts';
import type { Log } from '../ops/log.ts';

/** For listeners, Redis, relays, subscriptions, the log and the program itself. */
const RESERVED = 256;
/** The request of a call and the standalone stream of its session. */
const SOCKETS_OF_CALL = 2;

/** @returns how many files are open at most when every limit of the configuration is reached */
export function openFilesNeeded({ limits, routes }: Pick<Config, 'limits' | 'routes'>): number {
  const calls = limits.maxRunningCalls + limits.maxParkedCalls;
  const idle = routes.reduce((total, { sessions }) => total + sessions.maxIdle, 0);
  return limits.maxConnections + SOCKETS_OF_CALL * calls + idle + RESERVED;
}

/** Logs a warning where this process may open fewer files than it can come to need. */
export function warnOfFewFiles(config: Config, log: Log): void {
  const [limit, needed] = [openFileLimit(), openFilesNeeded(config)];
  if (limit !== null && limit < needed) log.event('gateway.few_open_files', { limit, needed });
}

/**
 * Reads the limit of this process. Node.js raises the soft limit to the hard one at start, and has no
 * call that tells it.
 * @returns `null` where it is not known: beside Linux, or without a limit
 */
function openFileLimit(): number | null {
  try {
    return readOpenFileLimit(readFileSync('/proc/self/limits', 'utf8'));
  } catch {
    return null;
  }
}

/** In: what Linux says in `/proc/self/limits`. */
export function readOpenFileLimit(text: string): number | null {
  const soft = /^Max open files +(\d+) /m.exec(text)?.[1];
  return soft === undefined ? null : Number(soft);
}
