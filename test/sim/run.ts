/** `npm run sim`: plays histories until one breaks a law, and shows the shortest that still does. */
import { parseArgs } from 'node:util';
import './engine/pins.ts';
import { realElapsed } from './engine/simulation.ts';
import './network/tcp-model.ts';
import { lineOf, readCorpus } from './corpus.ts';
import { type History, historyOf, shorten, type SizeOfHistory } from './fleet/history.ts';
import { play as playUnwatched, type Played } from './fleet/play.ts';
import { watch } from './watch.ts';

const USAGE = `Usage: npm run sim -- [OPTION...]

  --seeds N       plays N histories (default: as many as fit in the minutes)
  --minutes M     for at most M minutes (default: 1)
  --from S        the first seed (default: 1)
  --seed S        plays the history of this seed only, and prints it
  --replicas R    gateways in a fleet (default: 3)
  --long          histories of 200 calls of 4 callers, with 5 replicas that end and start again
  --corpus        plays the histories that failed once
  --keep-going    does not stop at a failure, and counts the seeds that break each law
  --log           prints all that happens, with --seed
  --help          prints this text

Exits with 1 if a history breaks a law.
`;
const MINUTE_MS = 60_000;
const MOST_REPLICAS = 26;
/** How long a failing history is made shorter. */
const SHORTEN_MS = { short: 120_000, long: 600_000 } as const;

/** A history that takes longer is taken for one that never ends. */
const STUCK_MS = { short: 60_000, long: 600_000 } as const;

const { values } = parseArgs({
  options: {
    seeds: { type: 'string' },
    minutes: { type: 'string' },
    from: { type: 'string', default: '1' },
    seed: { type: 'string' },
    replicas: { type: 'string', default: '3' },
    long: { type: 'boolean', default: false },
    corpus: { type: 'boolean', default: false },
    'keep-going': { type: 'boolean', default: false },
    log: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});

const begins = watch(values.long ? STUCK_MS.long : STUCK_MS.short);

if (values.help) end(USAGE);
else if (values.corpus) setImmediate(playCorpus);
else setImmediate(values.seed === undefined ? playMany : playOne);

function play(history: History): Played {
  begins(history.seed);
  return playUnwatched(history);
}

function playOne(): void {
  const seed = positive('--seed', values.seed);
  const history = historyOf(seed, sizeOfHistory());
  const played = play(history);
  if (values.log) process.stdout.write(`${played.log.join('\n')}\n`);
  if (played.violations.length > 0) return fail(history, played);
  end(`${played.story.join('\n')}\nseed ${seed} breaks no law (digest ${played.digest})\n`);
}

function playCorpus(): void {
  const failed = readCorpus().flatMap(({ what, history }) => {
    const { violations, story } = play(history);
    return violations.length === 0 ? [] : [`${what}\n${[...story, ...violations].join('\n')}\n`];
  });
  if (failed.length > 0) process.exitCode = 1;
  end(failed.length > 0 ? failed.join('\n') : 'no law was broken\n');
}

function playMany(): void {
  const from = positive('--from', values.from);
  const most = values.seeds === undefined ? Infinity : positive('--seeds', values.seeds);
  const isBounded = values.minutes !== undefined || values.seeds === undefined;
  const forMs = isBounded ? Number(values.minutes ?? 1) * MINUTE_MS : Infinity;
  if (!(forMs > 0)) throw new TypeError(`--minutes: expected a number above 0`);
  const beginMs = realElapsed();
  const failed = new Map<string, number[]>();
  const next = (seed: number) => {
    const count = seed - from;
    if (count >= most || realElapsed() - beginMs >= forMs) {
      const seconds = ((realElapsed() - beginMs) / 1_000).toFixed(0);
      return end(`${count} histories in ${seconds} s: ${summaryOf(failed)}\n`);
    }
    const history = historyOf(seed, sizeOfHistory());
    const played = play(history);
    if (played.violations.length > 0) {
      if (!values['keep-going']) return fail(history, played);
      for (const law of new Set(played.violations.map(lawOf))) {
        failed.set(law, [...(failed.get(law) ?? []), seed]);
      }
    }
    if (process.stderr.isTTY) {
      process.stderr.write(`\r${count + 1} histories, ${failed.size} laws broken`);
    }
    setImmediate(next, seed + 1);
  };
  next(from);
}

function summaryOf(failed: ReadonlyMap<string, readonly number[]>): string {
  if (failed.size === 0) return 'no law was broken';
  process.exitCode = 1;
  return [...failed]
    .map(([law, seeds]) => `\n${law} is broken by ${seeds.length}: ${seeds.join(' ')}`)
    .toSorted()
    .join('');
}

/** Prints the shortest history that breaks the same law. */
function fail(history: History, { violations: [first = ''] }: Played): void {
  const law = lawOf(first);
  const untilMs = realElapsed() + SHORTEN_MS[values.long ? 'long' : 'short'];
  const shortest = shorten(
    history,
    (shorter) =>
      realElapsed() < untilMs &&
      play(shorter).violations.some((violation) => lawOf(violation) === law),
  );
  const { story, violations } = play(shortest);
  process.exitCode = 1;
  const { seed, calls, faults, isCalm } = shortest;
  const noise = isCalm ? 'without noise' : 'with noise';
  end(`seed ${seed} breaks ${first}
The shortest history that breaks ${law}: ${shortest.replicas} replicas, ${calls.length} calls, ${faults.length} faults, ${noise}
${story.join('\n')}
${violations.join('\n')}
To see it again: npm run sim -- --seed ${seed} --replicas ${history.replicas}${values.long ? ' --long' : ''}
Once it is mended, for test/sim/corpus.yaml:
- what: ${law} was broken
  history: ${lineOf(shortest)}
`);
}

function lawOf(violation: string): string {
  return violation.slice(0, violation.indexOf(':'));
}

function sizeOfHistory(): SizeOfHistory {
  const replicas = positive('--replicas', values.replicas);
  if (replicas > MOST_REPLICAS) throw new TypeError(`--replicas: at most ${MOST_REPLICAS}`);
  return { replicas, size: values.long ? 'long' : 'short' };
}

function positive(flag: string, text: string | undefined): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value > 0) return value;
  throw new TypeError(`${flag}: expected a whole number above 0, got "${text}"`);
}

/** What simulations leave (sockets, threads) must not keep the process. */
function end(text: string): void {
  process.stdout.write(text, () => process.exit());
}
