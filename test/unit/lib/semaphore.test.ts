import { setImmediate as endOfTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { Semaphore } from '../../../src/lib/semaphore.ts';

test('so many pieces of work run at a time, and the others wait in their order', async () => {
  const turns = new Semaphore(2);
  const begun: [string, boolean][] = [];
  const ends = new Map<string, PromiseWithResolvers<void>>();
  const work = (name: string) => (hasWaited: boolean) => {
    begun.push([name, hasWaited]);
    const end = Promise.withResolvers<void>();
    ends.set(name, end);
    return end.promise;
  };
  const taken = ['a', 'b', 'c', 'd'].map((name) => turns.take(work(name)));
  // At once, and not in a later turn: what is sent stays in order.
  expect(begun).toEqual([
    ['a', false],
    ['b', false],
  ]);
  expect(turns.waiting).toBe(2);
  ends.get('b')?.reject(new Error('no'));
  await expect(taken[1]).rejects.toThrow('no');
  await endOfTurn();
  expect(begun.slice(2)).toEqual([['c', true]]);
  for (const name of ['a', 'c']) ends.get(name)?.resolve();
  await endOfTurn();
  ends.get('d')?.resolve();
  await Promise.all([taken[0], taken[2], taken[3]]);
  const later = turns.take(work('e'));
  expect(begun.slice(3)).toEqual([
    ['d', true],
    ['e', false],
  ]);
  ends.get('e')?.resolve();
  await later;
});
