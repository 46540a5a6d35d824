/** Histories that break no law: the first seeds, and those that broke one once. */
import { execFile } from 'node:child_process';
import { expect, test } from 'vitest';

const LONGEST_MS = 200_000;
const SEEDS = 50;
const ALL_IS_WELL = /no law was broken\n$/;

/** @returns what it printed, which is the shortest history if one breaks a law */
function run(file: string, ...words: string[]): Promise<string> {
  const options = ['--expose-internals', '--no-warnings', `test/sim/${file}`, ...words];
  return new Promise((resolve) => {
    execFile(process.execPath, options, { timeout: LONGEST_MS }, (error, stdout, stderr) =>
      resolve(`${stderr}${error?.killed === true ? `${file} is stuck` : ''}${stdout}`),
    );
  });
}

const play = (from: number) => run('run.ts', '--from', String(from), '--seeds', String(SEEDS));

test('the histories of the first hundred seeds break no law', { timeout: LONGEST_MS }, async () => {
  const [first, second] = await Promise.all([play(1), play(1 + SEEDS)]);
  expect(first).toMatch(ALL_IS_WELL);
  expect(second).toMatch(ALL_IS_WELL);
});

test('histories that broke a law once break none', { timeout: LONGEST_MS }, async () => {
  expect(await run('run.ts', '--corpus')).toMatch(ALL_IS_WELL);
});

test('a history that does not end is named, and its process ends', async () => {
  expect(await run('stuck-process.ts')).toContain('the history of seed 7 is stuck');
});
