import { readFileSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, test } from 'vitest';
import { format, resolveConfig } from 'prettier';
import { parse } from 'yaml';
import { ConfigError } from '../../../src/config/load/problem.ts';
import {
  resolvedSchema,
  writtenSchema,
  writtenSchemaText,
  type SchemaNode,
} from '../../../src/config/schema/json-schema.ts';
import { loadConfig } from '../../../src/config/load/load.ts';
import { configOf } from './problems-of.ts';
import { configurationReference } from './reference.ts';

const root = new URL('../../../', import.meta.url);
const path = (name: string) => new URL(name, root).pathname;
const read = (name: string) => readFileSync(path(name), 'utf8');

/** Files that are made are formatted like all others; `vitest run -u` makes them anew. */
const STYLE = (await resolveConfig(path('config/schema.json'))) ?? {};

const PRODUCTION_ENV = {
  BILLING_URL: 'http://billing:3000/mcp',
  BILLING_TOKEN: 'token',
  SEARCH_URL: 'http://search:3000/sse',
  SEAL_KEY_ID: 'key-1',
  POD_IP: '10.0.0.7',
  REDIS_URL: 'redis://redis:6379',
  SEAL_KEY: 'A'.repeat(43),
};

describe('the examples', () => {
  test('config/example.yaml works as it stands', () => {
    const { routes } = loadConfig(path('config/example.yaml'), {}).config;
    expect(routes.map((route) => route.upstream.url?.href)).toEqual(['http://127.0.0.1:3001/mcp']);
  });

  test('config/production.yaml loads once its variables are set', () => {
    const { config } = loadConfig(path('config/production.yaml'), PRODUCTION_ENV);
    expect(config.routes.map(({ id }) => id)).toEqual(['billing', 'search']);
    expect(config.identity).toMatchObject({ source: 'header', header: 'X-Authenticated-User' });
    expect(config.seal.keys).toEqual([{ kid: 'key-1', key: PRODUCTION_ENV.SEAL_KEY }]);
    expect(config.routes[0]?.upstream.headers).toEqual({ authorization: 'Bearer token' });
  });

  test.each(Object.keys(PRODUCTION_ENV))('config/production.yaml asks for %s', (name) => {
    const env = { ...PRODUCTION_ENV, [name]: undefined };
    expect(() => loadConfig(path('config/production.yaml'), env)).toThrow(ConfigError);
    expect(() => loadConfig(path('config/production.yaml'), env)).toThrow(`variable ${name},`);
  });

  test('the file for all replicas of docs/operate/scaling.md loads once its variables are set', () => {
    const [, file = ''] =
      /```yaml\n# gateway\.yaml\n(.*?)```/s.exec(read('docs/operate/scaling.md')) ?? [];
    const env = { PORT: '1', ADMIN_PORT: '2', RELAY_PORT: '3', SEAL_KEY: PRODUCTION_ENV.SEAL_KEY };
    const { relay, redis, seal } = configOf(file, { env });
    expect([relay?.listen?.port, redis === null, seal.keys.length]).toEqual([3, false, 1]);
  });
});

describe('the JSON Schema', () => {
  const validate = new Ajv2020({ strict: true, allowUnionTypes: true }).compile(writtenSchema());

  test('config/schema.json is what "mrtr-gateway check --schema" prints', async () => {
    const formatted = await format(writtenSchemaText(), { ...STYLE, parser: 'json' });
    await expect(formatted).toMatchFileSnapshot(path('config/schema.json'));
  });

  test.each(['config/example.yaml', 'config/production.yaml'])('accepts %s', (name) => {
    validate(parse(read(name)));
    expect(validate.errors).toBeNull();
  });

  test('knows no key that the file does not', () => {
    expect(validate({ routes: [{ upstream: { url: 'http://a/', ulr: '' } }] })).toBe(false);
  });

  test('accepts a file reference only where one is resolved', () => {
    const routes = [{ upstream: { url: 'http://a/' } }];
    expect(validate({ routes, seal: { keys: [{ kid: 'a', key: 'file:/k' }] } })).toBe(true);
    expect(validate({ routes, log: { level: 'file:/k' } })).toBe(false);
  });
});

describe('the reference', () => {
  test('docs/configuration.md is made from the schema as it is now', async () => {
    const formatted = await format(configurationReference(), { ...STYLE, parser: 'markdown' });
    await expect(formatted).toMatchFileSnapshot(path('docs/configuration.md'));
  });

  test('every key says what it means', () => {
    const silent = (node: SchemaNode, key: string): string[] => [
      ...(key === '' || key.endsWith('[]') || node.const !== undefined || node.description
        ? []
        : [key]),
      ...Object.entries(node.properties ?? {}).flatMap(([name, member]) =>
        silent(member, `${key}.${name}`),
      ),
      ...(node.oneOf ?? []).flatMap((each) => silent({ ...each, description: 'a variant' }, key)),
      ...(node.items === undefined ? [] : silent(node.items, `${key}[]`)),
    ];
    expect(silent(resolvedSchema(), '')).toEqual([]);
  });
});
