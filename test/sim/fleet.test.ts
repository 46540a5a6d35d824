/** A whole fleet of real gateways, in one process, where a seed says all that happens. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { type History, historyOf } from './fleet/history.ts';

const OPTIONS = ['--expose-internals', '--no-warnings'];
const LONGEST_MS = 50_000;

async function run(file: string, words: string[], options: string[] = []): Promise<string> {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [...options, ...OPTIONS, `test/sim/${file}`, ...words],
    { timeout: LONGEST_MS },
  );
  return stdout;
}

async function digests(seeds: number[], options?: string[]): Promise<Record<string, string>> {
  return JSON.parse(await run('fleet-process.ts', seeds.map(String), options)) as Record<
    string,
    string
  >;
}

test('one seed gives one log of a fleet: in another process, after other seeds, with another heap', async () => {
  // The gateway of the first has workers, the server of the fourth is that of the SDK, and that of the last over stdio.
  const first = await digests([5, 1, 2, 4, 8, 3]);
  expect(new Set(Object.values(first)).size).toBe(6);
  expect(await digests([3, 8, 4, 2, 1, 5], ['--max-semi-space-size=1'])).toEqual(first);
  expect(await digests([2])).toEqual({ 2: first['2'] });
});

test('a server of the official SDK asks and is answered in the simulation, and one seed gives one log of that in two processes', async () => {
  const seed = firstSeed(({ server, faults, calls }) => {
    const nobodyLeaves = calls.every(({ habits }) => habits.leavesAfterMs === null);
    return server.sdk === 'typescript-1' && faults.length === 0 && nobodyLeaves;
  });
  const words = ['--seed', String(seed), '--log'];
  const [log, again] = await Promise.all([run('run.ts', words), run('run.ts', words)]);
  expect(log).toContain(`seed ${seed} breaks no law`);
  expect(again).toBe(log);
  expect(log).toContain('is shown what it has logged');
  const asked = questionsIn(log, 'asked');
  expect(asked.length).toBeGreaterThan(5);
  const withdrawn = questionsIn(log, 'withdrawn');
  expect(questionsIn(log, 'answered')).toEqual(asked.filter((one) => !withdrawn.includes(one)));
});

test('npm run sim -- --help says how it is used', async () => {
  expect(await run('run.ts', ['--help'])).toContain('--replicas R');
});

test('a flag of the simulation that is no number is an error', async () => {
  await expect(run('run.ts', ['--seeds', 'many'])).rejects.toThrow('--seeds: expected');
});

/** The first seed of such a history. */
function firstSeed(isSuch: (history: History) => boolean): number {
  let seed = 1;
  while (!isSuch(historyOf(seed))) seed += 1;
  return seed;
}

/** The questions of which a server says so. */
function questionsIn(log: string, what: string): string[] {
  const line = new RegExp(`server: ${what} \\w+ by \\w+\\.?\\w* (\\S+)`, 'g');
  return [...log.matchAll(line)].map(([, question = '']) => question).toSorted();
}
