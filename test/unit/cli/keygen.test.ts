import { expect, test } from 'vitest';
import { keygen } from '../../../src/cli/run.ts';
import { configOf, withRoute } from '../config/problems-of.ts';

const inConfig = (printed: string) => configOf(withRoute(`seal:\n  keys:\n${printed}`)).seal.keys;

test('what keygen prints goes under seal.keys as it is', () => {
  const [first, second, ...others] = inConfig(keygen() + keygen());
  expect(others).toEqual([]);
  expect(Buffer.from(first?.key ?? '', 'base64url')).toHaveLength(32);
  expect(first?.key).not.toBe(second?.key);
});

test.each(['123456789012', '1234e5678901', '0x12', 'null'])(
  'a name such as %s stays a text',
  (kid) => {
    expect(inConfig(keygen({ kid, secret: new Uint8Array(32) }))[0]?.kid).toBe(kid);
  },
);
