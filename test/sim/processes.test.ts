/** What becomes of processes in the simulation that are killed, frozen or cut off; and what of Node.js the simulation needs. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, test } from 'vitest';

const LONGEST_MS = 30_000;
const run = (...words: string[]) =>
  promisify(execFile)(process.execPath, ['--expose-internals', '--no-warnings', ...words], {
    timeout: LONGEST_MS,
  });

test('Node.js and undici have every internal that the simulation uses', async () => {
  const { stderr } = await run('test/sim/engine/node-internals.ts');
  expect(stderr).toBe('');
});

describe('in a simulation', () => {
  let seen: Record<string, string[]>;

  beforeAll(async () => {
    const { stdout } = await run('test/sim/processes-process.ts');
    seen = JSON.parse(stdout) as Record<string, string[]>;
  });

  test.each<[string, string[]]>([
    ['a killed process does nothing more', []],
    [
      'whoever talks with a killed process sees the end',
      ['client sees the end', 'client is destroyed: true'],
    ],
    [
      'what falls due in a frozen process waits, in its order',
      ['goes on', '10 ms', '15 ms', '20 ms'],
    ],
    [
      'a timer that is cancelled when a process goes on does not fire',
      ['first', 'later', 'refreshed'],
    ],
    ['an interval fires once when a process goes on', ['interval']],
    ['timers of others fire while a process is frozen', ['B']],
    [
      'a frozen process takes connections, and serves them when it goes on',
      ['connected', 'goes on', 'served'],
    ],
    [
      'what is sent on a way that is cut arrives when it is whole, in its order',
      ['cut: ', 'whole: one two three four'],
    ],
    ['a connect to a place that is cut off waits until the way is whole', ['mended', 'connected']],
    [
      'a process that vanishes tells nobody, until the way is whole',
      ['mended', 'client sees the end'],
    ],
    [
      'a clock that steps is ahead for its process only',
      ['2026-01-01T00:01:00.000Z 2026-01-01T00:00:00.000Z'],
    ],
    ['a forked process has the clock of the process that forks it', ['2026-01-01T00:01']],
    ['what nobody catches is a crash of its process', ['A: Error: nobody caught this']],
    ['handles and timers are counted by their process', ['2 1 1']],
  ])('%s', (title, expected) => {
    expect(seen[title]).toEqual(expected);
  });
});
