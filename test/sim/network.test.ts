/** The network and the processes of the simulation beside the kernel's, and that a seed says all that happens in it. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, test } from 'vitest';
import { CONVERSATIONS } from './network/conversations.ts';
import { PROCESS_CONVERSATIONS } from './processes/conversations.ts';
import { FORK_CONVERSATIONS } from './processes/fork-conversations.ts';

interface Result {
  readonly seen: Record<string, string[]>;
  readonly digests: Record<string, string>;
}

const SEEDS = ['1', '2', '3'];
const LONGEST_MS = 30_000;

async function talk(words: string[], options: string[] = []): Promise<Result> {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [...options, '--expose-internals', 'test/sim/conversations-process.ts', ...words],
    { timeout: LONGEST_MS },
  );
  return JSON.parse(stdout) as Result;
}

/** What each end saw, in its order, and what came from each file of a process. Which of two ends sees something first is not the same twice in the kernel either. */
function byEnd(lines: readonly string[] = []): Partial<Record<string, string[]>> {
  const end = (line: string) => /^(client|server|output|error-output) /.exec(line)?.[1] ?? 'both';
  return Object.groupBy(lines, end);
}

describe('the network of the simulation', () => {
  let kernel: Result;
  const models: Result[] = [];

  beforeAll(async () => {
    kernel = await talk(['kernel']);
    for (const seed of SEEDS) models.push(await talk(['model', seed]));
  });

  test.each(Object.keys({ ...CONVERSATIONS, ...PROCESS_CONVERSATIONS, ...FORK_CONVERSATIONS }))(
    'as in the kernel: %s',
    (title) => {
      const expected = byEnd(kernel.seen[title]);
      expect(kernel.seen[title]).not.toEqual([]);
      for (const model of models) expect(byEnd(model.seen[title])).toEqual(expected);
    },
  );

  test('one seed gives one log: in another process, in another order, with another heap', async () => {
    const again = await talk(['model', '1', 'reversed'], ['--max-semi-space-size=1']);
    expect(again.digests).toEqual(models[0]?.digests);
  });

  test('another seed gives another log', () => {
    const title = 'a response comes whole';
    expect(new Set(models.map((model) => model.digests[title])).size).toBe(SEEDS.length);
  });
});
