import fc from 'fast-check';
import { expect, test } from 'vitest';
import { RecentMap } from '../../../src/lib/containers.ts';

const MIN = 3;

test('it holds the last entries, at least so many, and never more than twice as many', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(20), { maxLength: 80 }), (keys) => {
      const map = new RecentMap<number, number>(MIN);
      const order: number[] = [];
      for (const [at, key] of keys.entries()) {
        map.set(key, at);
        if (order.includes(key)) order.splice(order.indexOf(key), 1);
        order.push(key);
        for (const recent of order.slice(-MIN)) {
          expect(map.get(recent)).toBe(keys.lastIndexOf(recent, at));
          expect(map.has(recent)).toBe(true);
        }
        expect(order.filter((one) => map.has(one)).length).toBeLessThanOrEqual(2 * MIN);
      }
    }),
  );
});

test('what it does not hold is undefined', () => {
  const map = new RecentMap<string, number>(1);
  expect([map.get('a'), map.has('a')]).toEqual([undefined, false]);
});
