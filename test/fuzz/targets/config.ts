/** The loader of configuration files: any text loads, or each problem has its place, line and column. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { parseConfig } from '../../../src/config/load/load.ts';
import { ConfigError } from '../../../src/config/load/problem.ts';
import { mutated } from '../mutations.ts';
import { target } from '../target.ts';

const read = (name: string) =>
  readFileSync(new URL(`../../../config/${name}`, import.meta.url), 'utf8');
const withoutComments = (text: string) => text.replace(/^\s*#.*\n/gm, '');
const SEEDS = [
  ...['example.yaml', 'production.yaml', 'compose.yaml'].map((name) => withoutComments(read(name))),
  'routes: [{upstream: {command: node, args: [a.js], env: {A: "${A}"}}}]\n',
  `listen: ":80"
identity: {source: jwt, issuer: "https://a", audiences: [a], jwks: {file: /keys}}
edge: {trustedProxies: [10.0.0.0/8, "::1"], allowedOrigins: ["https://a"]}
limits: {rate: 5/s, maxBody: 4MiB}
routes:
  - {id: a, path: /a, upstream: {url: "http://a/mcp", headers: {x-a: b}, authorization: strip}}
  - {id: b, path: /b, upstream: {url: "http://b/mcp"}, limits: {tools: {t: {maxRunning: 1}}}}
`,
];
const TOKENS = [
  ...['\n', '  ', '\t', '- ', ': ', ':', '{', '}', '[', ']', '"', "'", '#', '|', '>', '&a ', '*a'],
  ...[
    '<<: *a\n',
    '!!binary ',
    '? ',
    '---\n',
    '...\n',
    '%YAML 1.1\n',
    '${A}',
    '${B}',
    '${',
    'file:',
  ],
  ...['null', '~', 'yes', '0x10', '1e400', '.nan', '-1', '9'.repeat(40), '__proto__: {a: 1}\n'],
  ...[
    'routes:\n',
    'seal:\n',
    'keys:\n',
    'constructor: 1\n',
    '\u0000',
    '\uFEFF',
    '\u2028',
    '\ud800',
  ],
];
const FILE = 'gateway.yaml';
const LINE = /^gateway\.yaml:[1-9]\d*:[1-9]\d* [^\n]+$/;

export const config = target('config', 60, () => ({
  inputs: mutated(SEEDS, TOKENS),
  check(text) {
    try {
      const { config: loaded } = parseConfig(text, FILE, {
        env: { A: 'x', SEAL_KEY: 'A'.repeat(43), RELAY_URL: 'http://a:1' },
        readSecret: () => 'secret',
      });
      assert(loaded.routes.length > 0, 'no routes');
    } catch (error) {
      assert(error instanceof ConfigError, `another failure: ${String(error)}`);
      assert(error.problems.length > 0, 'no problem');
      for (const problem of error.problems) assert.match(problem, LINE);
    }
    assert.equal(({} as Record<string, unknown>)['a'], undefined, 'a prototype was changed');
  },
  stop: async () => {},
}));
