/** Decides from what processes hold before, during and after the load whether anything leaks. */
import type { Held } from './probe.ts';

/** A sample under load. */
export interface Sample {
  readonly atMs: number;
  readonly held: Held;
}

/** What is left outside of the gateway when nobody uses it. */
export interface Outside {
  /** Sessions that replicas have. */
  readonly held: number;
  /** Sessions at the server. */
  readonly sessions: number;
  readonly processes: number;
  /** Without fencing tokens, which outlive the claims of sessions by up to 20 minutes. */
  readonly redisKeys: number;
  /** Keys of Redis that never expire. */
  readonly lastingKeys: number;
}

export interface Observed {
  readonly replica: string;
  /** Without load, after a warm-up. */
  readonly before: Held;
  readonly samples: readonly Sample[];
  /** Without load, at the end. */
  readonly after: Held;
}

export interface Check {
  readonly what: string;
  readonly before: string;
  readonly after: string;
  readonly passes: boolean;
}

/** What a process may hold more than before: of memory a share, of the rest a number. */
const MEMORY_SHARE = 0.1;
/** Machine code is made as functions are used more, and there is only so much of the program. */
const CODE_SHARE = 0.5;
const FEW = 2;
/** Before that share of the samples, caches still fill. */
const SETTLED = 0.25;

export function checksOf({ replica, before, samples, after }: Observed): Check[] {
  const settled = samples.slice(Math.floor(samples.length * SETTLED));
  const memory = (what: string, of: (held: Held) => number, share = MEMORY_SHARE): Check[] => {
    const points = settled.map(({ atMs, held }) => [atMs, of(held)] as const);
    const { first, last } = trend(points);
    return [
      {
        what: `${replica}: ${what}, trend under load`,
        ...{ before: mebibytes(first), after: mebibytes(last) },
        passes: last <= first * (1 + share),
      },
      {
        what: `${replica}: ${what}, without load`,
        ...{ before: mebibytes(of(before)), after: mebibytes(of(after)) },
        passes: of(after) <= of(before) * (1 + share),
      },
    ];
  };
  const few = (what: string, of: (held: Held) => number): Check => ({
    what: `${replica}: ${what}`,
    ...{ before: String(of(before)), after: String(of(after)) },
    passes: of(after) <= of(before) + FEW,
  });
  return [
    ...memory('heap', ({ heapBytes }) => heapBytes),
    ...memory('code', ({ codeBytes }) => codeBytes, CODE_SHARE),
    ...memory('RSS', ({ rssBytes }) => rssBytes),
    few('open files and sockets', ({ openFiles }) => openFiles),
    few('handles', ({ handles }) => handles),
    few('timers', ({ timers }) => timers),
  ];
}

/** @param lost how many sessions were open in replicas when they crashed: nobody can end them, or take back their claims */
export function checksOutside(before: Outside, after: Outside, lost = 0): Check[] {
  const check = (what: string, of: keyof Outside, more = 0): Check => ({
    what: more === 0 ? what : `${what} (${more} were open in replicas that crashed)`,
    ...{ before: String(before[of]), after: String(after[of]) },
    passes: after[of] <= before[of] + more,
  });
  return [
    check('sessions of replicas', 'held'),
    check('sessions at the server', 'sessions', lost),
    check('child processes', 'processes'),
    check('keys in Redis, without fencing tokens', 'redisKeys', lost),
    check('keys in Redis that never expire', 'lastingKeys'),
  ];
}

/** Fits a line to points. @returns its values at the first and at the last of them */
export function trend(points: readonly (readonly [x: number, y: number])[]): {
  readonly first: number;
  readonly last: number;
} {
  const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const [x, y] = [mean(points.map(([at]) => at)), mean(points.map(([, value]) => value))];
  const covariance = mean(points.map(([at, value]) => (at - x) * (value - y)));
  const variance = mean(points.map(([at]) => (at - x) ** 2));
  const slope = variance === 0 ? 0 : covariance / variance;
  const valueAt = (at: number) => y + slope * (at - x);
  return { first: valueAt(points[0]?.[0] ?? x), last: valueAt(points.at(-1)?.[0] ?? x) };
}

export function tableOf(checks: readonly Check[]): string {
  const row = ({ what, before, after, passes }: Check) =>
    `| ${what} | ${before} | ${after} | ${passes ? 'ok' : 'LEAKS'} |`;
  return ['| What | Before | After | |', '| --- | ---: | ---: | --- |', ...checks.map(row)].join(
    '\n',
  );
}

function mebibytes(bytes: number): string {
  return `${(bytes / 1024 ** 2).toFixed(1)} MiB`;
}
