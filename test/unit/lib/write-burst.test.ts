import { setImmediate as endOfTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { WriteBurst } from '../../../src/lib/http.ts';

/** A burst, what it has written so far, and how to add a write. */
function burstOf(clients: () => number) {
  const written: number[] = [];
  const writes = new WriteBurst(() => clients() <= 1);
  return { written, add: (name: number) => writes.add(() => written.push(name)) };
}

test('the write for the only client is made at once', () => {
  const { written, add } = burstOf(() => 1);
  add(1);
  expect(written).toEqual([1]);
});

test('with several clients, the writes of a turn are made at its end, in their order', async () => {
  let clients = 2;
  const { written, add } = burstOf(() => clients);
  add(1);
  add(2);
  // The other client has left. What waits still comes first.
  clients = 1;
  add(3);
  expect(written).toEqual([]);
  await endOfTurn();
  expect(written).toEqual([1, 2, 3]);
  add(4);
  expect(written).toEqual([1, 2, 3, 4]);
});

test('32 writes do not wait for more', async () => {
  const { written, add } = burstOf(() => 100);
  for (let name = 1; name <= 33; name += 1) add(name);
  expect(written).toHaveLength(32);
  await endOfTurn();
  expect(written).toEqual(Array.from({ length: 33 }, (_, index) => index + 1));
});
