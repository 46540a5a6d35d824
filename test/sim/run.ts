/** `npm run sim`: plays histories until one breaks a law, and shows the shortest that still does. */
import { parseArgs } from 'node:util';
import './engine/pins.ts';
import { realElapsed } from './engine/simulation.ts';
import './network/tcp-model.ts';
import { type History, historyOf, shorten } from './fleet/history.ts';
import { play, type Played } from './fleet/play.ts';

const USAGE = `Usage: npm run sim -- [OPTION...]

  --seeds N       plays N histories (default: as many as fit in the minutes)
  --minutes M     for at most M minutes (default: 1)
  --from S        the first seed (default: 1)
  --seed S        plays the history of this seed only, and prints it
  --replicas R    gateways in a fleet (default: 3)
  --help          prints this text

Exits with 1 if a history breaks a law.
`;
const MINUTE_MS = 60_000;
const MOST_REPLICAS = 26;

const { values } = parseArgs({
  options: {
    seeds: { type: 'string' },
    minutes: { type: 'string' },
    from: { type: 'string', default: '1' },
    seed: { type: 'string' },
    replicas: { type: 'string', default: '3' },
    help: { type: 'boolean', default: false },
  },
});

if (values.help) end(USAGE);
else setImmediate(values.seed === undefined ? playMany : playOne);

function playOne(): void {
  const seed = positive('--seed', values.seed);
  const history = historyOf(seed, replicas());
  const played = play(history);
  if (played.violations.length > 0) return fail(history, played);
  end(`${played.story.join('\n')}\nseed ${seed} breaks no law (digest ${played.digest})\n`);
}

function playMany(): void {
  const from = positive('--from', values.from);
  const most = values.seeds === undefined ? Infinity : positive('--seeds', values.seeds);
  const isBounded = values.minutes !== undefined || values.seeds === undefined;
  const forMs = isBounded ? Number(values.minutes ?? 1) * MINUTE_MS : Infinity;
  if (!(forMs > 0)) throw new TypeError(`--minutes: expected a number above 0`);
  const beginMs = realElapsed();
  const next = (seed: number) => {
    const count = seed - from;
    if (count >= most || realElapsed() - beginMs >= forMs) {
      const seconds = ((realElapsed() - beginMs) / 1_000).toFixed(0);
      return end(`${count} histories in ${seconds} s: no law was broken\n`);
    }
    const history = historyOf(seed, replicas());
    const played = play(history);
    if (played.violations.length > 0) return fail(history, played);
    if (process.stderr.isTTY) process.stderr.write(`\r${count + 1} histories`);
    setImmediate(next, seed + 1);
  };
  next(from);
}

/** Prints the shortest history that breaks the same law. */
function fail(history: History, { violations: [first = ''] }: Played): void {
  const law = lawOf(first);
  const shortest = shorten(history, (shorter) =>
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
To see it again: npm run sim -- --seed ${seed} --replicas ${history.replicas}
`);
}

function lawOf(violation: string): string {
  return violation.slice(0, violation.indexOf(':'));
}

function replicas(): number {
  const count = positive('--replicas', values.replicas);
  if (count > MOST_REPLICAS) throw new TypeError(`--replicas: at most ${MOST_REPLICAS}`);
  return count;
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
