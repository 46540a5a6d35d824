import fc from 'fast-check';
import { expect, test } from 'vitest';
import { ByteBudget } from '../../../src/lib/byte-budget.ts';

const KIB = 1024;
const MAX = 1024 * KIB;

test('no more is held than the limit in all, and half of it for one owner, whatever is held and given back', () => {
  const step = fc.record({
    owner: fc.constantFrom('one', 'two', 'three'),
    index: fc.nat(9),
    kib: fc.nat(600),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const budget = new ByteBudget(() => MAX);
      const open = new Map<
        string,
        { readonly held: ReturnType<ByteBudget['open']>; bytes: number }
      >();
      const sum = (owner: string) =>
        [...open].reduce(
          (bytes, [name, one]) =>
            bytes + (name.startsWith(owner) ? Math.max(0, one.bytes - 16 * KIB) : 0),
          0,
        );
      for (const { owner, index, kib } of steps) {
        const name = `${owner} ${index}`;
        const one = open.get(name) ?? { held: budget.open(owner), bytes: 0 };
        open.set(name, one);
        if (one.held.hold(kib * KIB)) one.bytes = kib * KIB;
        expect(budget.heldBytes).toBe(sum(''));
        expect(sum('')).toBeLessThanOrEqual(MAX);
        expect(sum(owner)).toBeLessThanOrEqual(MAX / 2);
      }
      for (const { held } of open.values()) held.release();
      expect(budget.heldBytes).toBe(0);
    }),
  );
});

test('16 KiB of each are held, also while there is no room', () => {
  const budget = new ByteBudget(() => 0);
  const held = budget.open('one');
  expect(held.hold(16 * KIB)).toBe(true);
  expect(held.hold(16 * KIB + 1)).toBe(false);
});
