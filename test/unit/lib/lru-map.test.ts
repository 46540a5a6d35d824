import fc from 'fast-check';
import { expect, test } from 'vitest';
import { LruMap } from '../../../src/lib/containers.ts';

const MAX = 3;

/** The same with an array: the least recently used key first. */
class Model {
  readonly keys: number[] = [];

  use(key: number): void {
    this.drop(key);
    this.keys.push(key);
    if (this.keys.length > MAX) this.keys.shift();
  }

  drop(key: number): void {
    const at = this.keys.indexOf(key);
    if (at >= 0) this.keys.splice(at, 1);
  }
}

const key = fc.nat(6);
const steps = fc.array(
  fc.oneof(
    fc.record({ type: fc.constant('set' as const), key }),
    fc.record({ type: fc.constant('get' as const), key }),
    fc.record({ type: fc.constant('delete' as const), key }),
    fc.record({ type: fc.constant('clear' as const), key }),
  ),
  { maxLength: 60 },
);

test('it holds the keys that were used last, whatever was deleted before', () => {
  fc.assert(
    fc.property(steps, (all) => {
      const [map, model] = [new LruMap<number, number>(MAX), new Model()];
      for (const step of all) {
        if (step.type === 'set') {
          map.set(step.key, step.key * 2);
          model.use(step.key);
        } else if (step.type === 'get') {
          const isThere = model.keys.includes(step.key);
          expect(map.get(step.key)).toBe(isThere ? step.key * 2 : undefined);
          if (isThere) model.use(step.key);
        } else if (step.type === 'delete') {
          map.delete(step.key);
          model.drop(step.key);
        } else {
          map.clear();
          model.keys.length = 0;
        }
        const held = [0, 1, 2, 3, 4, 5, 6].filter((one) => map.has(one));
        expect(held).toEqual([...model.keys].sort());
      }
    }),
  );
});
