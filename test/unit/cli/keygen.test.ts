import { expect, test } from 'vitest';
import { parseArguments } from '../../../src/cli/arguments.ts';
import { keygen } from '../../../src/cli/run.ts';
import { configFromFlags } from '../../../src/config/load/from-flags.ts';
import { configOf, withRoute } from '../config/problems-of.ts';

const inConfig = (printed: string) => configOf(withRoute(`seal:\n  keys:\n${printed}`)).seal.keys;

test('what keygen prints goes under seal.keys as it is', () => {
  const [first, second, ...others] = inConfig(keygen('yaml') + keygen('yaml'));
  expect(others).toEqual([]);
  expect(Buffer.from(first?.key ?? '', 'base64url')).toHaveLength(32);
  expect(first?.key).not.toBe(second?.key);
});

test.each(['123456789012', '1234e5678901', '0x12', 'null'])(
  'a name such as %s stays a text',
  (kid) => {
    expect(inConfig(keygen('yaml', { kid, secret: new Uint8Array(32) }))[0]?.kid).toBe(kid);
  },
);

const KEY = { kid: 'k1', secret: new Uint8Array(32).fill(7) };
const KEYS = [{ kid: KEY.kid, key: Buffer.from(KEY.secret).toString('base64url') }];

test('as JSON it is an entry of seal.keys', () => {
  expect([JSON.parse(keygen('json', KEY))]).toEqual(KEYS);
});

test.each(['env', 'raw'] as const)('as %s it is what a gateway without a file reads', (format) => {
  const printed = keygen(format, KEY).replace(/\n$/, '');
  const env =
    format === 'env'
      ? Object.fromEntries([printed.split('=', 2)])
      : { MRTR_GATEWAY_SEAL_KEY: printed };
  const command = parseArguments(['--upstream', 'http://a/'], env);
  if (command.kind !== 'serve-upstream') throw new Error(`got ${command.kind}`);
  expect(configFromFlags(command.values).seal.keys).toEqual(KEYS);
});
