/** What `check` says of a file besides its problems: what is risky, what was meant, and everything at once. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { loadConfig } from '../../../src/config/load/load.ts';
import { problemsOf, withRoute } from './problems-of.ts';

const folder = mkdtempSync(join(tmpdir(), 'advice-'));
afterAll(() => rmSync(folder, { recursive: true }));

const KEY = Buffer.from('0123456789abcdef0123456789abcdef').toString('base64url');
const KEYS = `seal: {keys: [{kid: a, key: ${KEY}}]}\n`;
const JWT =
  'source: jwt, issuer: "https://a", audiences: ["https://m/mcp"], jwks: {url: "https://a/k"}';
const METADATA = 'resourceMetadata: {resource: "https://m/mcp"}';

function warningsOf(text: string, env = {}): string[] {
  const file = join(folder, 'gateway.yaml');
  writeFileSync(file, text);
  return loadConfig(file, env).warnings.map((line) => line.replace(`${file}:`, ''));
}

describe('a warning', () => {
  test.each([
    [
      `listen: ":80"\n${KEYS}`,
      '',
      /^3:9 warning: listen: 0\.0\.0\.0:80 is open to the network, .* identity/,
    ],
    [
      'drain: {parked: 10m}\n',
      '',
      /warning: drain\.parked: no key is configured, so calls .* are lost/,
    ],
    [`listen: ":80"\nidentity: {${JWT}, ${METADATA}}\n`, '', /warning: seal\.keys: .* no key/],
    [
      `seal: {keys: [{kid: a, key: ${'A'.repeat(43)}}]}\n`,
      '',
      /^3:29 warning: seal\.keys\[0\]\.key: the key is one byte repeated/,
    ],
    [
      'identity: {source: header, header: X-User}\n',
      '',
      /^3:36 warning: identity\.header: whoever/,
    ],
    [`identity: {${JWT}}\n`, '', /^3:11 warning: identity: without resourceMetadata, clients find/],
    [
      `identity: {${JWT}, resourceMetadata: {resource: "https://m"}}\n`,
      '',
      /warning: identity\.resourceMetadata\.resource: clients ask for tokens for "https:\/\/m"/,
    ],
    [
      `identity: {${JWT.replace('https://a/k', 'http://auth/k')}, ${METADATA}}\n`,
      '',
      /warning: identity\.jwks\.url: the keys are fetched without TLS/,
    ],
    [
      '',
      '    tools: {deny: [a]}\n  - {path: /open, upstream: {url: "http://127.0.0.1:3001/mcp"}}\n',
      /^2:5 warning: routes\[0\]: routes\[1\] reaches the same server without rules on tools/,
    ],
    [
      '',
      '    calls: {maxHold: 25s}\n',
      /warning: routes\[0\]\.calls\.maxHold: .* told to retry 2 times in a call at most, .*: Claude on the web, the desktop and Cowork \(0 times\), Go SDK \(2 times\)\. A longer timeout .*, or tasks,/,
    ],
    [
      '',
      '    parking: {maxRounds: 11}\n',
      /warning: routes\[0\]\.parking\.maxRounds: official clients end a call after 10 rounds or before/,
    ],
    [
      '',
      '    limits: {ratePerPrincipal: 5/s}\n',
      /warning: routes\[0\]\.limits\.ratePerPrincipal: callers without credentials count as one/,
    ],
    [
      'workers: 2\n',
      '    limits: {tools: {mail: {rate: 5/s}}}\n',
      /warning: routes\[0\]\.limits\.tools\.mail: each replica and each worker counts separately/,
    ],
    [
      'edge: {trustedProxies: [10.0.0.1]}\n',
      '',
      /^3:24 warning: edge\.trustedProxies: .* a session for each call, .* costs an initialize: /,
    ],
    [
      'edge: {allowedHosts: [mcp.example.com]}\n',
      '',
      /^3:22 warning: edge\.allowedHosts: .* costs an initialize: /,
    ],
    [
      `edge: {trustedProxies: [10.0.0.1]}\nidentity: {${JWT}, mode: optional, ${METADATA}}\n`,
      '',
      /warning: edge\.trustedProxies: .* costs an initialize: /,
    ],
    [
      '',
      '    parking: {release: auto}\n',
      /warning: routes\[0\]\.parking\.release: .* released calls end with the process: /,
    ],
  ])('says what is valid but risky: %j', (text, route, line) => {
    const warnings = warningsOf(withRoute(text, route));
    expect(warnings).toEqual([expect.stringMatching(line)]);
  });

  test.each([
    ['none.json', null, /no such file or directory \(ENOENT\)$/],
    ['text.json', 'keys', /it is not JSON$/],
    [
      'secret.json',
      '{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}',
      /it is not a JWK set of public keys$/,
    ],
  ])('says that keys cannot be read: %s', (name, content, line) => {
    const keys = join(folder, name);
    if (content !== null) writeFileSync(keys, content);
    const identity = JWT.replace('url: "https://a/k"', `file: "${keys}"`);
    const [warning, ...others] = warningsOf(withRoute(`identity: {${identity}, ${METADATA}}\n`));
    expect(others).toEqual([]);
    expect(warning).toMatch(/^3:\d+ warning: identity\.jwks\.file: the keys cannot be read, /);
    expect(warning).toMatch(line);
  });

  test.each([
    ['headers: {Authorization: a}, authorization: forward', '', /forward has no effect/],
    ['authorization: forward', `identity: {${JWT}, ${METADATA}}`, /MCP forbids passing on/],
  ])('says what forwarding means: %s', (upstream, rest, line) => {
    const text = `routes: [{upstream: {url: "http://a", ${upstream}}}]\n${rest}\n`;
    expect(warningsOf(text)).toEqual([expect.stringMatching(line)]);
  });

  // Rule stdio-12: `check` and the log name the variables of secrets in the gateway's environment that the process
  // can read.
  test('names the variables whose secrets a server over stdio can read', () => {
    const env = {
      SEAL: Buffer.alloc(32, 'seal key').toString('base64url'),
      API: 'key of the other server',
      OWN: 'key of this server',
      OTHER: 'key of that process',
      REDIS: 'redis://:password@redis:6379',
      NAME: 'redis',
      SHORT: 'server',
    };
    const text = [
      'seal: {keys: [{kid: a, key: "${SEAL}"}]}',
      'redis: {url: "${REDIS}"}',
      'routes:',
      '  - {id: a, path: /a, upstream: {url: "http://a", headers: {x-api-key: "Bearer ${API}"}}}',
      '  - {id: b, path: /b, upstream: {command: node, env: {KEY: "${OWN}"}}}',
      '  - {id: c, path: /c, upstream: {command: node, env: {KEY: "${OTHER}"}}}',
    ].join('\n');
    const found = warningsOf(text, env).filter((line) => line.includes('/proc'));
    const named = found.map((line) =>
      line.replace(/^.*?(routes\S+):.*can read (.*?) in its.*$/, '$1 $2'),
    );
    expect(named).toEqual([
      'routes[1].upstream.command SEAL, API, OTHER, REDIS',
      'routes[2].upstream.command SEAL, API, OWN, REDIS',
    ]);
    expect(found.join()).not.toMatch(/key of|password/);
  });

  test.each([
    ['the secrets of its own route', 'upstream: {command: node, env: {KEY: "${KEY}"}}'],
    ['no server over stdio', 'upstream: {url: "http://a", headers: {x-api-key: "${KEY}"}}'],
  ])('names no variable for %s', (_what, route) => {
    const warnings = warningsOf(`routes: [{${route}}]\n`, { KEY: 'a secret of the server' });
    expect(warnings.filter((line) => line.includes('/proc'))).toEqual([]);
  });

  const withCommand = (command: string, also = '') =>
    `routes: [{upstream: {command: ${JSON.stringify(command)}${also}}}]\n`;

  test.each(['npx -y server', './npx -y server', join(folder, 'npx -y')])(
    'says that a command contains its arguments: %s',
    (command) => {
      expect(warningsOf(withCommand(command))).toEqual([
        '1:31 warning: routes[0].upstream.command: it has white space, and there is no program with this name: put the arguments into upstream.args',
      ]);
    },
  );

  test.each([
    ['command: ~/server', 'command', '~/'],
    ['command: npx, cwd: "~"', 'cwd', '~'],
    ['command: npx, args: [-y, server, $HOME/files]', 'args[2]', '$HOME'],
    ['command: npx, env: {DATA: ~/data}', 'env.DATA', '~/'],
  ])('says that no shell reads a command: %s', (server, field, start) => {
    const [warning = '', ...others] = warningsOf(`routes: [{upstream: {${server}}}]\n`);
    expect(others).toEqual([]);
    expect(warning).toContain(`warning: routes[0].upstream.${field}: it begins with ${start}, `);
  });

  test('is not given for what a shell leaves as it is', () => {
    const args = 'command: npx, args: ["/home/ada/files", a~/b, "~x", $HOMEWARD]';
    expect(warningsOf(`routes: [{upstream: {${args}}}]\n`)).toEqual([]);
  });

  test('is not given for a program with white space in its name', () => {
    writeFileSync(join(folder, 'my server'), '');
    for (const [command, also] of [
      ['npx', ', args: [-y, server]'],
      [join(folder, 'my server'), ''],
      ['./my server', `, cwd: ${JSON.stringify(folder)}`],
      ['my server', `, env: {PATH: ${JSON.stringify(`/nowhere:${folder}`)}}`],
    ] as const) {
      expect(warningsOf(withCommand(command, also))).toEqual([]);
    }
  });

  test.each([
    ['listen: 127.0.0.1:80\n'],
    [`listen: ":80"\n${KEYS}identity: {${JWT}, ${METADATA}}\n`],
    ['identity: {source: header, header: X-User}\nedge: {trustedProxies: [10.0.0.1]}\n'],
    [`identity: {${JWT.replace('https://a/k', 'http://localhost/k')}, ${METADATA}}\n`],
    [`edge: {trustedProxies: [10.0.0.1]}\nidentity: {${JWT}, ${METADATA}}\n`],
    ['edge: {trustedProxies: [10.0.0.1]}\n', '    sessions: {scope: call}\n'],
    ['edge: {allowedHosts: [a.example]}\n', '    sessions: {scope: principal}\n'],
    [KEYS, '    parking: {release: auto}\n'],
  ])('is not given for %j', (text, route = '') => {
    expect(warningsOf(withRoute(text, route))).toEqual([]);
  });
});

describe('all problems', () => {
  test('are said at once, of shapes, references and rules between fields', () => {
    const text = withRoute(
      'log: {level: loud}\nadmin: 127.0.0.1:8080\nseal: {audience: "${NOWHERE}"}\nextra: 1\n',
      '    parking: {ttl: 2h}\n',
    );
    expect(problemsOf(text)).toEqual([
      expect.stringMatching(/^3:20 routes\[0\]\.parking\.ttl: expected at most parking\.callTtl/),
      expect.stringMatching(/^4:14 log\.level: expected one of/),
      expect.stringMatching(/^5:8 admin: expected a port other than that of listen/),
      expect.stringMatching(/^6:18 seal\.audience: expected the environment variable NOWHERE/),
      expect.stringMatching(/^7:1 extra: unknown key/),
    ]);
  });

  test.each([
    ['listen: nowhere\nadmin: 127.0.0.1:8080\n', '', ['listen']],
    ['limits: {maxParkedCalls: -1, maxParkedCallsPerPrincipal: 20000}\n', '', ['limits']],
    ['', '    parking: {ttl: 2h, callTtl: long}\n', ['routes']],
    ['seal: {keys: [{kid: a, key: short}]}\nrelay: {listen: "127.0.0.1:0"}\n', '', ['seal']],
    ['seal: {keys: ["${NOWHERE}"]}\nrelay: {listen: "127.0.0.1:0"}\n', '', ['seal']],
  ])('do not include what only follows from another: %j', (text, route, fields) => {
    const found = problemsOf(withRoute(text, route));
    expect(found.map((line) => /^\S+ (\w+)/.exec(line)?.[1])).toEqual(fields);
  });

  test('of a route that has no upstream do not hide those of the others', () => {
    const text = 'routes: [{}, {path: /b, upstream: {url: "http://a"}, parking: {ttl: 2h}}]\n';
    expect(problemsOf(text)).toEqual([
      expect.stringMatching(/routes\[0\]\.upstream: expected a map/),
      expect.stringMatching(/routes\[1\]\.parking\.ttl: expected at most/),
    ]);
  });
});

describe('a hint', () => {
  test.each([
    ['mcpServers: {a: {command: npx}}\n', /mcpServers: unknown key; this block is for clients/],
    ['{"mcpServers": {"a": {"url": "http://a"}}}', /unknown key; this block is for clients/],
    ['url: http://a\n', /url: unknown key; it belongs to routes\[0\]\.upstream: check/],
    ['upstream: {url: "http://a"}\n', /upstream: unknown key; it belongs to routes\[0\]: check/],
    [
      'routes:\n  - upstream:\n    url: http://a\n',
      /^3:5 routes\[0\]\.url: unknown key; it belongs to routes\[0\]\.upstream: check the indentation$/,
    ],
    [
      'routes:\n  - upstream:\n      url: http://a\n      identity: {source: none}\n',
      /^4:7 routes\[0\]\.upstream\.identity: unknown key; it belongs to the top level: check/,
    ],
    [
      'routes: [{upstream: {url: "localhost:3001/mcp"}}]\n',
      /did you mean "http:\/\/localhost:3001/,
    ],
    [
      'routes: [{upstream: {url: mcp.example.com}}]\n',
      /did you mean "http:\/\/mcp\.example\.com"\?$/,
    ],
    ['{\n  // the server\n  "routes": []\n}\n', /^2:3 .*unknown key; comments begin with #$/],
    ['{\n  "routes": [] // none\n}\n', /^2:16 not valid YAML: comments begin with #/],
    ['{"routes": [], /* none */ "log": {}}\n', /^1:16 .*unknown key; comments begin with #$/],
  ])('says what was meant by %j', (text, line) => {
    expect(problemsOf(text)).toContainEqual(expect.stringMatching(line));
  });

  test('shows no secret of a URL', () => {
    const found = problemsOf('routes: [{upstream: {url: "ada:secret@host/mcp?key=secret"}}]\n');
    expect(found.join()).not.toContain('secret');
  });
});

test('a dialect in front of a server that is configured as modern is a warning', () => {
  const route = '    dialects: {sep-2322: /draft}\n';
  const upstream = 'upstream: {url: "http://127.0.0.1:3001/mcp", era: modern}';
  const warnings = warningsOf(`${KEYS}routes:\n  - ${upstream}\n${route}`);
  expect(warnings).toEqual([
    expect.stringContaining('routes[0].dialects.sep-2322: the server speaks 2026-07-28'),
  ]);
});
