/**
 * `npm run soak`: three replicas with Redis under mixed load for a while, disturbed by reloads, rotated keys, deployments and
 * crashes. Ends with exit code 1 if anything is left when the load has ended, or if a call got a reply that it must not get.
 */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { cpus, loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Disturbances } from './disturbances.ts';
import { ACTS, Outcomes, STDIO_ACTS, use } from './load.ts';
import type { Held } from './probe.ts';
import {
  checksOf,
  checksOutside,
  tableOf,
  type Check,
  type Outside,
  type Sample,
} from './verdict.ts';
import { World, type Settings } from './world.ts';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '20' },
    users: { type: 'string', default: '8' },
    help: { type: 'boolean', short: 'h', default: false },
  },
});
if (values.help) {
  console.log(`npm run soak [-- --minutes N] [--users N]

  --minutes N  how long the load lasts that counts (20), after a warm-up of five minutes at most
  --users N    how many callers there are at a time (8); one more uses a server over stdio

Needs Redis and Linux. On a terminal a line shows the progress; elsewhere there is a line for each minute.`);
  process.exit();
}

const MINUTE_MS = 60_000;
const WARM_UP_MS = Math.min(5 * MINUTE_MS, (Number(values.minutes) * MINUTE_MS) / 4);
const LOAD_MS = Number(values.minutes) * MINUTE_MS;
const USERS = Number(values.users);
const STAY_MS = 40_000;
const PAUSE_MS = 150;
const DISTURB_EVERY_MS = 4_000;
const SAMPLE_EVERY_MS = 15_000;
/** Former routes, sessions and keys are gone by then. */
const SETTLE_MS = 180_000;
const FIRST: Settings = { keys: ['key-0'], maxRounds: 10, hasThirdRoute: false };

let toldMinute = -1;

const folder = await mkdtemp(join(tmpdir(), 'mrtr-gateway-soak-'));
const world = await World.start(folder, FIRST);
const stayers = world.replicas.slice(0, -1);
try {
  process.exitCode = (await soak()) ? 0 : 1;
} finally {
  await world.stop();
  if (process.exitCode === 0) await rm(folder, { recursive: true });
  else console.log(`The logs are in ${folder}.`);
}

async function soak(): Promise<boolean> {
  const outcomes = new Outcomes();
  const disturbances = new Disturbances(world, FIRST, outcomes);
  say(
    `three replicas, ${USERS + 1} users; load average ${loadavg()[0]?.toFixed(1)} of ${cpus().length} cores`,
  );
  await load('warm-up', WARM_UP_MS, outcomes, disturbances);
  const before = { outside: await settled(), held: await heldByStayers('least') };
  const samples = await load('load', LOAD_MS, outcomes, disturbances);
  const after = {
    outside: await settled(before.outside, disturbances),
    held: await heldByStayers('least'),
  };
  const checks: Check[] = [
    ...stayers.flatMap(({ name }, index) =>
      checksOf({
        replica: name,
        before: before.held[index]!,
        samples: samples[index]!,
        after: after.held[index]!,
      }),
    ),
    ...checksOutside(before.outside, after.outside, disturbances.counts.lostSessions),
  ];
  const leaks = checks.filter(({ passes }) => !passes);
  const { reloads, rotations, restarts, crashes } = disturbances.counts;
  console.log(`\n${tableOf(checks)}\n`);
  for (const [outcome, count] of [...outcomes.counts].toSorted(([, a], [, b]) => b - a)) {
    console.log(`- ${outcome}: ${count}`);
  }
  console.log(
    `\n${outcomes.total} calls; ${reloads} reloads, ${rotations} rotations, ${restarts} restarts, ${crashes} crashes of a replica`,
  );
  await tellWarnings();
  for (const fault of outcomes.faults) console.log(`fault: ${fault}`);
  const passes = leaks.length === 0 && outcomes.faults.length === 0;
  console.log(
    passes
      ? 'Nothing leaks.'
      : `${leaks.length} leaks, ${outcomes.counts.get('fault') ?? 0} faults.`,
  );
  return passes;
}

/** @returns what each replica that stays held meanwhile */
async function load(
  what: string,
  forMs: number,
  outcomes: Outcomes,
  disturbances: Disturbances,
): Promise<Sample[][]> {
  toldMinute = -1;
  const over = AbortSignal.timeout(forMs);
  const startedAtMs = performance.now();
  const samples: Sample[][] = stayers.map(() => []);
  const sampling = (async () => {
    while (!over.aborted) {
      await sleep(SAMPLE_EVERY_MS, undefined, { signal: over }).catch(() => {});
      const atMs = performance.now() - startedAtMs;
      for (const [index, held] of (await heldByStayers('held')).entries()) {
        samples[index]?.push({ atMs, held });
      }
      progress(what, atMs, forMs, outcomes, samples);
    }
  })();
  const { front } = world;
  const url = (path: string) => new URL(path, front.url).href;
  const options = { stayMs: STAY_MS, pauseMs: PAUSE_MS, outcomes, signal: over };
  const users = Array.from({ length: USERS }, (_, index) =>
    use(url('/mcp'), `user-${index}`, { ...options, acts: ACTS }),
  );
  users.push(use(url('/stdio'), 'user-stdio', { ...options, acts: STDIO_ACTS }));
  await Promise.all([...users, sampling, disturbances.run(DISTURB_EVERY_MS, over)]);
  return samples;
}

function heldByStayers(asked: 'held' | 'least'): Promise<Held[]> {
  return Promise.all(stayers.map((replica) => replica.held(asked)));
}

/** Waits until nothing is left, or no more than before; at most for a while. */
async function settled(before?: Outside, disturbances?: Disturbances): Promise<Outside> {
  const deadline = performance.now() + SETTLE_MS;
  // What was replaced by the last reload is kept for a minute.
  await sleep(75_000);
  for (;;) {
    const now = await world.outside();
    const isOver =
      before === undefined
        ? now.held + now.processes === 0
        : checksOutside(before, now, disturbances?.counts.lostSessions).every(
            ({ passes }) => passes,
          );
    say(
      `without load: ${Object.entries(now)
        .map(([name, count]) => `${count} ${name}`)
        .join(', ')}`,
    );
    if (isOver || performance.now() > deadline) return now;
    await sleep(10_000);
  }
}

function progress(
  what: string,
  atMs: number,
  forMs: number,
  outcomes: Outcomes,
  samples: readonly (readonly Sample[])[],
): void {
  const memory = samples.map((of) => {
    const { heapBytes = 0, rssBytes = 0, openFiles = 0, timers = 0 } = of.at(-1)?.held ?? {};
    const mebibytes = (bytes: number) => (bytes / 1024 ** 2).toFixed(0);
    return `${mebibytes(heapBytes)}/${mebibytes(rssBytes)} MiB ${openFiles} files ${timers} timers`;
  });
  const minutes = (ms: number) => (ms / MINUTE_MS).toFixed(1);
  const text = `${what} ${minutes(atMs)} of ${minutes(forMs)} min, ${outcomes.total} calls, ${outcomes.faults.length} faults; ${memory.join('; ')}`;
  const minute = Math.floor(atMs / MINUTE_MS);
  if (process.stderr.isTTY)
    process.stderr.write(`\r\x1b[K${text.slice(0, (process.stderr.columns || 80) - 1)}`);
  else if (minute !== toldMinute) say(text);
  toldMinute = minute;
}

function say(text: string): void {
  process.stderr.write(`${text}\n`);
}

/** Tells which warnings and errors replicas logged, and how often. */
async function tellWarnings(): Promise<void> {
  const counts = new Map<string, number>();
  for (const { log } of world.replicas) {
    for (const line of (await readFile(log, 'utf8')).split('\n')) {
      const [, level] = /^\{"level":"(\w+)"/.exec(line) ?? [];
      if (line === '' || level === 'info') continue;
      const [, event = line.slice(0, 120)] = /"event":"([\w.]+)"/.exec(line) ?? [];
      counts.set(event, (counts.get(event) ?? 0) + 1);
    }
  }
  console.log('\nWarnings and errors in the logs:');
  for (const [event, count] of counts) console.log(`- ${event}: ${count}`);
}
