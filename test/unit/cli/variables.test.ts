/** Variables of the environment that have the prefix of the gateway, and that it does not read. */
import { describe, expect, test } from 'vitest';
import { FLAGS } from '../../../src/cli/flags.ts';
import {
  describeUnknown,
  unknownVariables,
  unusedVariables,
  VARIABLES,
} from '../../../src/cli/variables.ts';

const NONE: ReadonlySet<string> = new Set();

describe('an unknown variable', () => {
  test.each([
    ['MRTR_GATEWAY_UPSTREM', 'MRTR_GATEWAY_UPSTREAM'],
    ['MRTR_GATEWAY_LOGLEVEL', 'MRTR_GATEWAY_LOG_LEVEL'],
    ['MRTR_GATEWAY_SEAL_KEYS', 'MRTR_GATEWAY_SEAL_KEY'],
    ['MRTR_GATEWAY_listen', 'MRTR_GATEWAY_LISTEN'],
    // Long names resemble each other only in what follows the prefix.
    ['MRTR_GATEWAY_REDIS', null],
    ['MRTR_GATEWAY_', null],
    // A setting that people expect. In Kubernetes it is a URL.
    ['MRTR_GATEWAY_PORT', null],
    [`MRTR_GATEWAY_${'A'.repeat(100_000)}`, null],
  ])('%.40s is told, with the nearest one: %s', (name, nearest) => {
    expect(unknownVariables({ [name]: '8080' }, NONE)).toEqual([{ name, nearest }]);
  });

  test('is described in a line, without its value', () => {
    const lines = unknownVariables(
      { MRTR_GATEWAY_SEAL_KYE: 'hunter2', 'MRTR_GATEWAY_\u001b[1mX\n': 'hunter2' },
      NONE,
    ).map(describeUnknown);
    expect(lines).toEqual([
      'unknown variable "MRTR_GATEWAY_SEAL_KYE"; did you mean MRTR_GATEWAY_SEAL_KEY?',
      'unknown variable "MRTR_GATEWAY_\\u001b[1mX\\n"; "mrtr-gateway --help" lists the variables',
    ]);
  });

  test('is one of twenty at most', () => {
    const many = Array.from({ length: 100 }, (_, index) => [`MRTR_GATEWAY_X${index}`, '']);
    expect(unknownVariables(Object.fromEntries(many), NONE)).toHaveLength(20);
  });
});

describe('with a configuration file', () => {
  test('all variables are unused but those that override it', () => {
    const env = Object.fromEntries(VARIABLES.map((name) => [name, 'x']));
    const unused = unusedVariables(env, NONE).map(({ name }) => name);
    const counting = VARIABLES.filter((name) => !unused.includes(name));
    expect(counting.map((name) => name.replace('MRTR_GATEWAY_', '')).toSorted()).toEqual([
      'ADMIN',
      'CONFIG',
      'LISTEN',
      'LISTEN_DEFAULT',
      'LOG_FORMAT',
      'LOG_LEVEL',
      'WORKERS',
    ]);
  });

  test('those that it refers to are used, and empty ones are not set', () => {
    const env = { MRTR_GATEWAY_UPSTREAM: 'http://a/', MRTR_GATEWAY_PATH: '' };
    expect(unusedVariables(env, new Set(['MRTR_GATEWAY_UPSTREAM']))).toEqual([]);
  });
});

describe('nothing is told of', () => {
  test('variables of flags, of sealing keys, and of the image', () => {
    expect(VARIABLES).toEqual(
      expect.arrayContaining([
        ...FLAGS.serve.flatMap(({ env }) => env ?? []),
        'MRTR_GATEWAY_SEAL_KEY',
        'MRTR_GATEWAY_LISTEN_DEFAULT',
      ]),
    );
    const all = Object.fromEntries(VARIABLES.map((name) => [name, 'x']));
    expect(unknownVariables(all, NONE)).toEqual([]);
  });

  test('what is used for another reason, and other prefixes', () => {
    const env = { MRTR_GATEWAY_BILLING: 'x', MRTR_UPSTREAM: 'x', PATH: 'x', mrtr_gateway_x: 'x' };
    expect(unknownVariables(env, new Set(['MRTR_GATEWAY_BILLING']))).toEqual([]);
  });

  test.each(['MRTR_GATEWAY', 'MRTR_GATEWAY_ADMIN'])(
    'what Kubernetes sets for a Service, as %s_SERVICE_HOST',
    (service) => {
      const env = {
        [`${service}_SERVICE_HOST`]: '10.96.0.17',
        [`${service}_SERVICE_PORT`]: '8080',
        [`${service}_SERVICE_PORT_MCP`]: '8080',
        [`${service}_PORT`]: 'tcp://10.96.0.17:8080',
        [`${service}_PORT_8080_TCP`]: 'tcp://10.96.0.17:8080',
        [`${service}_PORT_8080_TCP_PROTO`]: 'tcp',
        [`${service}_PORT_8080_TCP_PORT`]: '8080',
        [`${service}_PORT_8080_TCP_ADDR`]: '10.96.0.17',
      };
      expect(unknownVariables(env, NONE)).toEqual([]);
    },
  );
});
