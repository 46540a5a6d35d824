/** A whole fleet of real gateways, in one process, where a seed says all that happens. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

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
  // The server of the last is over stdio, and the gateway of the first has workers.
  const first = await digests([5, 1, 2, 8, 3]);
  expect(new Set(Object.values(first)).size).toBe(5);
  expect(await digests([3, 8, 2, 1, 5], ['--max-semi-space-size=1'])).toEqual(first);
  expect(await digests([2])).toEqual({ 2: first['2'] });
});

test('npm run sim -- --help says how it is used', async () => {
  expect(await run('run.ts', ['--help'])).toContain('--replicas R');
});

test('a flag of the simulation that is no number is an error', async () => {
  await expect(run('run.ts', ['--seeds', 'many'])).rejects.toThrow('--seeds: expected');
});
