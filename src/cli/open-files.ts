/** Compares the limit of open files with what the configuration can need. */
import { readFileSync } from 'node:fs';
import type { Config } from '../config/config.ts';
import type { Log } from '../ops/log.ts';

/** For listeners, Redis, relays, subscriptions, the log and the program itself. */
const RESERVED = 256;
/** Computes how many files are open if every limit of the configuration is reached. */
export function openFilesNeeded({ limits, routes }: Pick<Config, 'limits' | 'routes'>): number {
  // One for the request of each call, and one for the standalone stream of each session.
  const calls = limits.maxRunningCalls + limits.maxParkedCalls;
  const sessions = routes.reduce((total, route) => total + route.sessions.max, 0);
  return limits.maxConnections + calls + sessions + RESERVED;
}

/** Logs a warning if this process cannot open as many files as it can need. */
export function warnOfFewFiles(config: Config, log: Log): void {
  const [limit, needed] = [openFileLimit(), openFilesNeeded(config)];
  if (limit !== null && limit < needed) log.event('gateway.few_open_files', { limit, needed });
}

/**
 * Reads the limit of this process. Node.js raises the soft limit to the hard one at start, and has no API to
 * read it.
 * @returns `null` if it is unknown (not on Linux) or unlimited
 */
function openFileLimit(): number | null {
  try {
    return readOpenFileLimit(readFileSync('/proc/self/limits', 'utf8'));
  } catch {
    return null;
  }
}

/** Parses `/proc/self/limits` of Linux. */
export function readOpenFileLimit(text: string): number | null {
  const soft = /^Max open files +(\d+) /m.exec(text)?.[1];
  return soft === undefined ? null : Number(soft);
}
