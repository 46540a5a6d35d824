/** The configuration of a gateway of another version than the benchmark's. */
import { expect, test } from 'vitest';
import { configurationFor, schemaOf } from '../../../bench/processes/gateway-config.ts';

const SCHEMA = {
  properties: {
    listen: {},
    routes: {
      items: { properties: { path: {}, sessions: { properties: { maxIdle: {} } } } },
    },
    identity: { oneOf: [{ properties: { source: {} } }, { properties: { header: {} } }] },
  },
};

test('a setting is written under the key that the version has', () => {
  const { config, leftOut } = configurationFor(SCHEMA, [
    { keys: ['routes.0.path'], value: '/mcp' },
    { keys: ['routes.0.sessions.max', 'routes.0.sessions.maxIdle'], value: 64 },
  ]);
  expect(config).toEqual({ routes: [{ path: '/mcp', sessions: { maxIdle: 64 } }] });
  expect(leftOut).toEqual([]);
});

test('a setting that the version does not have is left out and named', () => {
  const { config, leftOut } = configurationFor(SCHEMA, [
    { keys: ['listen'], value: ':1' },
    { keys: ['workers.count'], value: 2 },
  ]);
  expect(config).toEqual({ listen: ':1' });
  expect(leftOut).toEqual(['workers.count']);
});

test('keys that only one of several forms has are known', () => {
  const { config } = configurationFor(SCHEMA, [
    { keys: ['identity.source'], value: 'header' },
    { keys: ['identity.header'], value: 'x-user' },
  ]);
  expect(config).toEqual({ identity: { source: 'header', header: 'x-user' } });
});

test('without a schema everything is written', () => {
  const settings = [{ keys: ['routes.1.upstream.url'] as const, value: 'http://a' }];
  expect(configurationFor(null, settings)).toEqual({
    config: { routes: [undefined, { upstream: { url: 'http://a' } }] },
    leftOut: [],
  });
});

test('the schema of this checkout is found', () => {
  const schema = schemaOf(new URL('../../../', import.meta.url));
  expect(configurationFor(schema, [{ keys: ['listen'], value: ':1' }]).leftOut).toEqual([]);
});
