/**
 * What the live page shows, and nothing else: what is not in these types is not on it. No question, no answer, no argument
 * and no token is.
 */
import { z } from 'zod';

/** How calls ended, requests that were refused, and the time that calls took. */
export const SERIES = [
  'succeeded',
  'failed',
  'abandoned',
  'stopped',
  'refused',
  'peopleMs',
  'serverMs',
] as const;
export type Series = (typeof SERIES)[number];

/** A bar of a plot. */
export const BUCKET_MS = 10_000;
export const BUCKETS = 60;

/** How many calls and routes are shown. The others are counted. */
const MAX_CALLS = 100;
const MAX_ROUTES = 100;
const MAX_NAME = 80;
const MAX_PROBLEM = 200;

const count = z.number().min(0);
const name = z.string().max(MAX_NAME + 1);
const series = z.array(count).length(BUCKETS);

/** A call that waits for its client. */
const call = z.object({
  id: name,
  route: name,
  method: name,
  /** The tool, the prompt, or the resource without what could be a secret of its URI. */
  target: name,
  /** A digest of the principal, as in the audit. */
  who: name,
  /** The name of its client, which tells programs of one caller apart; empty if it has none, or from an older process. */
  client: name.default(''),
  /** Kinds of the open questions. */
  kinds: z.array(name).max(8),
  /** `resultReady`: the server has ended it, and the outcome waits. `runningDetached`: nothing is asked. */
  state: z.enum(['parked', 'runningDetached', 'resultReady', 'suspended']),
  round: count,
  /** When it began, and since when it waits for its client, in ms since the epoch. */
  startedAtMs: z.number(),
  sinceMs: z.number(),
  /** How its last retry reached its owner; `null` before the first. */
  recoveredBy: name.nullable(),
  /** Whether a task waits for it in place of its client. */
  isTask: z.boolean(),
  /** The process that has it. */
  owner: name,
});

const route = z.object({
  id: name,
  path: name,
  /** Where clients reach it; empty if that is not known, or from an older process. */
  url: z
    .string()
    .max(MAX_PROBLEM + 1)
    .default(''),
  /** What its server speaks, or why it cannot be used. */
  server: z.string().max(MAX_PROBLEM + 1),
  isUp: z.boolean(),
  /** Processes that leave the server alone, since it does not respond. */
  circuitsOpen: count,
  sessions: count,
  maxSessions: count,
  running: count,
  /** Calls that wait for their client, and released ones that do. */
  parked: count,
  released: count,
  /** By status. */
  tasks: z.record(name, count),
  /** The newest bucket comes last. */
  recent: z.object(Object.fromEntries(SERIES.map((one) => [one, series])) as Plots),
});

type Plots = Record<Series, typeof series>;

const status = z.enum(['ready', 'not ready', 'draining']);

/** What one process knows. */
export const livePart = z.object({
  /** The start of the name that pointers have for the process. */
  process: name,
  status,
  /** The number of the newest bucket, in `BUCKET_MS` since the epoch. */
  bucket: z.int(),
  routes: z.array(route).max(MAX_ROUTES),
  calls: z.array(call).max(MAX_CALLS),
  /** How many there are, with those that are not listed. */
  allRoutes: count,
  allCalls: count,
});

export type LiveCall = z.infer<typeof call>;
export type LiveRoute = z.infer<typeof route>;
export type LivePart = z.infer<typeof livePart>;

/** What all processes know together. */
export const liveSnapshot = livePart.omit({ process: true }).extend({
  version: name,
  atMs: z.number(),
  bucketMs: z.literal(BUCKET_MS),
  /** What can be done from the page. */
  actions: z.array(z.literal('cancel')),
  /** The processes, and those that did not reply. */
  processes: z.array(name),
  missing: z.array(name),
});

export type LiveSnapshot = z.infer<typeof liveSnapshot>;

/** Calls of a process before they are shown: the longest waiting come first. */
export function shownCalls(calls: readonly LiveCall[]): LiveCall[] {
  return calls.toSorted((a, b) => a.sinceMs - b.sinceMs).slice(0, MAX_CALLS);
}

/** Routes before they are shown: those with a problem, and the busiest, come first if there are too many. */
export function shownRoutes(routes: readonly LiveRoute[]): LiveRoute[] {
  if (routes.length <= MAX_ROUTES) return [...routes];
  const weight = ({ isUp, parked, running }: LiveRoute) => (isUp ? 0 : 1e12) + parked + running;
  return routes.toSorted((a, b) => weight(b) - weight(a)).slice(0, MAX_ROUTES);
}

/**
 * Sums what processes know.
 * @param missing the names of processes that did not reply
 */
export function sumParts(
  parts: readonly LivePart[],
  missing: readonly string[],
  about: Pick<LiveSnapshot, 'version' | 'atMs' | 'actions'>,
): LiveSnapshot {
  const bucket = Math.max(0, ...parts.map((part) => part.bucket));
  const routes = new Map<string, LiveRoute>();
  for (const part of parts) {
    for (const one of part.routes) {
      const moved = { ...one, recent: movedBy(one.recent, bucket - part.bucket) };
      const before = routes.get(one.id);
      routes.set(one.id, before === undefined ? moved : sumRoutes(before, moved));
    }
  }
  return {
    ...about,
    bucketMs: BUCKET_MS,
    status: statusOf(parts),
    bucket,
    routes: shownRoutes([...routes.values()]),
    calls: shownCalls(parts.flatMap(({ calls }) => calls)),
    allRoutes: Math.max(routes.size, ...parts.map(({ allRoutes }) => allRoutes)),
    allCalls: parts.reduce((sum, { allCalls }) => sum + allCalls, 0),
    processes: parts.map((part) => part.process),
    missing: [...missing],
  };
}

/** A gateway is ready if one of its processes is. */
function statusOf(parts: readonly LivePart[]): LivePart['status'] {
  const best = parts.find(({ status }) => status === 'ready') ?? parts[0];
  return best?.status ?? 'not ready';
}

const SUMMED = ['circuitsOpen', 'sessions', 'running', 'parked', 'released'] as const;

function sumRoutes(a: LiveRoute, b: LiveRoute): LiveRoute {
  const worse = a.isUp ? b : a;
  const tasks = { ...a.tasks };
  for (const [of, number] of Object.entries(b.tasks)) tasks[of] = (tasks[of] ?? 0) + number;
  const sums = Object.fromEntries(SUMMED.map((key) => [key, a[key] + b[key]]));
  return {
    ...worse,
    ...(sums as Pick<LiveRoute, (typeof SUMMED)[number]>),
    tasks,
    recent: eachSeries((one) => a.recent[one].map((value, at) => value + (b.recent[one][at] ?? 0))),
  };
}

/** Moves plots to the left: the clock of their process is in an earlier bucket. */
function movedBy(recent: LiveRoute['recent'], buckets: number): LiveRoute['recent'] {
  if (buckets === 0) return recent;
  return eachSeries((one) => {
    const kept = recent[one].slice(Math.min(buckets, BUCKETS));
    return [...kept, ...Array.from({ length: BUCKETS - kept.length }, () => 0)];
  });
}

/** Builds plots from each series. */
export function eachSeries(values: (of: Series) => number[]): LiveRoute['recent'] {
  return Object.fromEntries(SERIES.map((one) => [one, values(one)])) as LiveRoute['recent'];
}

/** Shows a text that others choose as a name: short, and without what changes how a screen shows the rest. */
export function shownName(text: string): string {
  return shown(text, MAX_NAME);
}

/** Shows a text of an error. */
export function shownProblem(text: string): string {
  return shown(text, MAX_PROBLEM);
}

/** Control characters, format characters (such as bidirectional overrides), lone surrogates, line separators. */
const UNSEEN = /[\p{C}\p{Zl}\p{Zp}]/gu;

function shown(text: string, max: number): string {
  // Nobody reads beyond that, and a name can be as long as a request.
  const seen = text
    .slice(0, max + 1)
    .replace(UNSEEN, (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`);
  return seen.length <= max ? seen : `${seen.slice(0, max).replace(/[\ud800-\udbff]$/, '')}…`;
}
