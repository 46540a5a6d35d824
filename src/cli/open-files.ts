/** Compares the limit of open files of this process with what its configuration can need. */
import { readFileSync } from 'node:fs';
import { configFromFlags } from '../config/load/from-flags.ts';
import type { Config } from '../config/schema.ts';
import type { Log } from '../ops/log.ts';

/** For listeners, Redis, relays, subscriptions, the log and the program itself. */
const RESERVED = 256;
/**
 * How much a limit counts that nobody has set. The defaults are bounds for a large gateway, and no plan of the operator: a
 * warning of their sum would reach most users, and mean nothing to them. All four come to 4096 with what is reserved.
 */
const NOT_SET = 960;

/**
 * Computes how many files are open if every limit is reached that the configuration sets. A limit counts as set if it
 * differs from its default.
 */
export function openFilesNeeded({ limits, routes }: Pick<Config, 'limits' | 'routes'>): number {
  const defaults = configFromFlags({ upstream: 'http://127.0.0.1' });
  const sessionsByDefault = defaults.routes[0]?.sessions.max;
  // One for the request of each call, and one for the standalone stream of each session.
  const ofGateway = (['maxConnections', 'maxRunningCalls', 'maxParkedCalls'] as const).map((key) =>
    limits[key] === defaults.limits[key] ? NOT_SET : limits[key],
  );
  const sessions = routes.map(({ sessions: { max } }) => max);
  const set = sessions.filter((max) => max !== sessionsByDefault);
  // Callers share what routes without a maximum of their own have.
  const others = set.length < sessions.length ? NOT_SET : 0;
  return [...ofGateway, ...set].reduce((total, max) => total + max, RESERVED + others);
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
export function openFileLimit(): number | null {
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
