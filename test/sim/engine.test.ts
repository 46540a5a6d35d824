/** The parts of the engine that need no internals of Node.js. */
import { expect, test } from 'vitest';
import { DueQueue } from './engine/queue.ts';
import { Random } from './engine/random.ts';

test('the queue gives what is due in the order of time, and of one time in the order in which it was added', () => {
  const random = new Random('queue');
  const queue = new DueQueue();
  const all = Array.from({ length: 500 }, (_, order) => {
    return { atMs: random.below(50), order, run: () => {} };
  });
  for (const due of all) queue.add(due);
  const taken = Array.from({ length: all.length }, () => queue.take());
  expect(taken).toEqual(all.toSorted((a, b) => a.atMs - b.atMs || a.order - b.order));
  expect(queue.take()).toBeUndefined();
});

test('one seed gives one sequence, another seed another', () => {
  const numbers = (seed: string) => {
    const random = new Random(seed);
    return Array.from({ length: 20 }, () => random.next());
  };
  expect(numbers('a')).toEqual(numbers('a'));
  expect(numbers('a')).not.toEqual(numbers('b'));
});

test('random numbers stay below their end and reach each value', () => {
  const random = new Random('range');
  const seen = new Set(Array.from({ length: 1_000 }, () => random.below(7)));
  expect([...seen].sort()).toEqual([0, 1, 2, 3, 4, 5, 6]);
});
