import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Members, type Place, ReleasingMap } from '../../../src/lib/containers.ts';

const CHURN = fileURLToPath(new URL('../../fixtures/churn.ts', import.meta.url));

/** @returns how many MiB of 195 reached the old generation of the heap */
function promotedMib(container: string): number {
  return Number(
    execFileSync(process.execPath, ['--expose-gc', CHURN, container], { encoding: 'utf8' }),
  );
}

describe('what left before a collection does not reach the old generation of the heap', () => {
  test.each(['ReleasingMap', 'Members'])('%s', (container) => {
    expect(promotedMib(container)).toBeLessThan(20);
  });

  test('a Map alone does not do that, so that these containers are needed', () => {
    expect(promotedMib('Map')).toBeGreaterThan(40);
  });
});

const key = fc.nat(6);
const steps = fc.array(
  fc.record({ type: fc.constantFrom('set' as const, 'delete' as const), key, value: fc.nat() }),
  { maxLength: 60 },
);

test('a ReleasingMap holds what a Map holds, in its order', () => {
  fc.assert(
    fc.property(steps, (all) => {
      const [map, model] = [new ReleasingMap<number, object>(), new Map<number, object>()];
      for (const { type, key, value } of all) {
        if (type === 'delete') {
          map.delete(key);
          model.delete(key);
        } else {
          map.set(key, { value });
          model.set(key, { value });
        }
        expect([...map]).toEqual([...model]);
        expect([...map.keys()]).toEqual([...model.keys()]);
        expect([...map.values()]).toEqual([...model.values()]);
        expect(map.size).toBe(model.size);
        expect([map.has(key), map.get(key)]).toEqual([model.has(key), model.get(key)]);
      }
    }),
  );
});

test('members come in the order in which they joined, without those that left', () => {
  fc.assert(
    fc.property(steps, (all) => {
      const members = new Members<{ readonly value: number }>();
      const model = new Map<number, { readonly value: number }>();
      const places = new Map<number, Place<{ readonly value: number }>>();
      for (const { type, key, value } of all) {
        // The second time it does nothing.
        places.get(key)?.leave();
        model.delete(key);
        if (type === 'set') {
          model.set(key, { value });
          places.set(key, members.add({ value }));
        }
        expect([...members]).toEqual([...model.values()]);
      }
    }),
  );
});

test('a member can leave while the members are gone through', () => {
  const members = new Members<{ readonly name: string }>();
  const places = ['a', 'b', 'c'].map((name) => members.add({ name }));
  const met: string[] = [];
  for (const { name } of members) {
    met.push(name);
    if (name === 'a') for (const place of places.slice(0, 2)) place.leave();
  }
  expect(met).toEqual(['a', 'c']);
});
