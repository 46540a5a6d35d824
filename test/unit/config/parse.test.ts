import { describe, expect, test } from 'vitest';
import { configOf, withRoute } from './problems-of.ts';

describe('defaults', () => {
  test('a URL is all that a configuration needs', () => {
    const config = configOf(withRoute());
    expect(config.routes[0]?.upstream.url?.href).toBe('http://127.0.0.1:3001/mcp');
    // docs/configuration.md, which is generated, has every default. These keep others out.
    expect([config.listen.host, config.admin?.host]).toEqual(['127.0.0.1', '127.0.0.1']);
  });

  test.each([
    ['/mcp', 'mcp'],
    ['/teams/a.b/mcp', 'teams-a-b-mcp'],
    ['/', 'root'],
    ['/~', 'root'],
  ])('a route at %s without an id is called %s', (path, id) => {
    const [route] = configOf(withRoute('', `    path: ${path}\n`)).routes;
    expect(route?.id).toBe(id);
  });
});

describe('human forms', () => {
  test('durations and sizes may be bare numbers, in milliseconds and bytes', () => {
    const config = configOf(withRoute('drain: {delay: 1500}\nlimits: {maxBody: 2048}\n'));
    expect(config.drain.delayMs).toBe(1500);
    expect(config.limits.maxBodyBytes).toBe(2048);
  });

  test('admin may be off', () => {
    expect(configOf(withRoute('admin: off\n')).admin).toBeNull();
  });

  test('JSON, indented with tabs, is a configuration as well', () => {
    const json = JSON.stringify(
      { listen: '[::1]:1', routes: [{ upstream: { url: 'https://example.com/' } }] },
      null,
      '\t',
    );
    expect(configOf(json).listen).toEqual({ host: '::1', port: 1 });
  });

  test('header names are lower case in the end, so that they win over the same name from elsewhere', () => {
    const text = 'routes: [{upstream: {url: "http://a/", headers: {X-Api-Key: "1"}}}]';
    expect(configOf(text).routes[0]?.upstream.headers).toEqual({ 'x-api-key': '1' });
  });

  test('a key may end with the padding that base64 has', () => {
    const key = 'A'.repeat(43);
    const text = withRoute(`seal: {keys: [{kid: a, key: "${key}="}]}\n`);
    expect(configOf(text).seal.keys).toEqual([{ kid: 'a', key }]);
  });
});

describe('several replicas', () => {
  const KEYS = `seal: {keys: [{kid: a, key: ${'A'.repeat(43)}}]}\n`;

  test('a relay is reached at its own address unless another one is given', () => {
    const { relay } = configOf(withRoute(`relay: {listen: "127.0.0.1:8081"}\n${KEYS}`));
    expect(relay).toEqual({
      via: 'http',
      listen: { host: '127.0.0.1', port: 8081 },
      advertise: null,
    });
    const text = withRoute(`relay: {listen: ":8081", advertise: "http://\${IP}:8081"}\n${KEYS}`);
    expect(configOf(text, { env: { IP: '10.0.0.7' } }).relay?.advertise?.host).toBe(
      '10.0.0.7:8081',
    );
  });

  test('a URL is all that a single Redis needs', () => {
    const { redis } = configOf(withRoute(`redis: {url: "redis://r:6380/2"}\n${KEYS}`));
    expect(redis).toEqual({
      mode: 'single',
      url: new URL('redis://r:6380/2'),
      startWaitMs: 10_000,
    });
  });

  test('Sentinels have a group to watch, logins and addresses; secrets may be files', () => {
    const text = withRoute(`
redis:
  url: file:/url
  mode: sentinel
  nodes: [s2:26379, "[::1]:26379"]
  sentinel: {name: main, password: file:/password}
  tls: {ca: file:/ca}
${KEYS}`);
    const files = { '/url': 'rediss://u:p@s1\n', '/password': 'q\n', '/ca': 'PEM\n' };
    expect(configOf(text, { files }).redis).toMatchObject({
      mode: 'sentinel',
      url: new URL('rediss://u:p@s1'),
      name: 'main',
      nodes: [
        { host: 's2', port: 26379 },
        { host: '::1', port: 26379 },
      ],
      sentinelPassword: 'q',
      tls: { ca: 'PEM' },
    });
  });

  test('a Cluster has nodes', () => {
    const text = withRoute(`redis: {url: "redis://r", mode: cluster, nodes: ["r2:6379"]}\n${KEYS}`);
    expect(configOf(text).redis).toMatchObject({ nodes: [{ host: 'r2', port: 6379 }] });
  });
});

test.each(['auto', 'legacy', 'modern'])('the era of a server over stdio can be %s', (era) => {
  const [route] = configOf(`routes: [{upstream: {command: server, era: ${era}}}]`).routes;
  expect(route?.upstream).toMatchObject({ era, process: { command: 'server' } });
});

test('a call can be held without a limit, or for a time', () => {
  expect(configOf(withRoute('', '    calls: {maxHold: 50s}\n')).routes[0]?.calls.maxHoldMs).toBe(
    50_000,
  );
  expect(
    configOf(withRoute('', '    calls: {maxHold: off}\n')).routes[0]?.calls.maxHoldMs,
  ).toBeNull();
});

describe('references', () => {
  test('a variable stands for text, wherever it is in a text', () => {
    const text = 'routes: [{upstream: {url: "http://${HOST}:${PORT:-3001}/mcp"}}]';
    const { routes } = configOf(text, { env: { HOST: 'legacy.example' } });
    expect(routes[0]?.upstream.url?.href).toBe('http://legacy.example:3001/mcp');
  });

  test('a default takes the place of a variable that is empty', () => {
    const text = withRoute('log: {level: "${LEVEL:-warn}"}\n');
    expect(configOf(text, { env: { LEVEL: '' } }).log.level).toBe('warn');
    expect(configOf(text, { env: { LEVEL: 'debug' } }).log.level).toBe('debug');
  });

  test('variables can give numbers, truth values and durations too', () => {
    const text = withRoute(
      'limits: {maxRunningCalls: "${N}"}\ndrain: {delay: "${D}"}\n',
      '    continuation: {reattach: "${B}"}\n',
    );
    const config = configOf(text, { env: { N: '12', D: '3s', B: 'false' } });
    expect(config.limits.maxRunningCalls).toBe(12);
    expect(config.drain.delayMs).toBe(3_000);
    expect(config.routes[0]?.continuation.reattach).toBe(false);
  });

  test('what a variable holds stays one text, whatever YAML or reference it looks like', () => {
    const text = 'routes: [{upstream: {url: "http://a/", headers: {X-A: "${A}"}}}]';
    const env = { A: 'x", admin: off, b: "${HOME} file:/etc/passwd' };
    expect(configOf(text, { env }).routes[0]?.upstream.headers['x-a']).toBe(env.A);
  });

  test('a variable that begins like a file reference reads no file', () => {
    const text = 'routes: [{upstream: {url: "http://a/", headers: {X-A: "${A}"}}}]';
    const { routes } = configOf(text, { env: { A: 'file:/s' }, files: { '/s': 'secret' } });
    expect(routes[0]?.upstream.headers['x-a']).toBe('file:/s');
  });

  test('two dollar signs keep a brace as it is', () => {
    const text = 'routes: [{upstream: {url: "http://a/", headers: {X-A: "a$${B}$c"}}}]';
    expect(configOf(text).routes[0]?.upstream.headers['x-a']).toBe('a${B}$c');
  });

  test('sealing keys and header values can come from files, without the newline at the end', () => {
    const key = 'B'.repeat(43);
    const text = `
routes: [{upstream: {url: "http://a/", headers: {Authorization: "file:token"}}}]
seal: {keys: [{kid: a, key: "file:\${DIR}/seal-key"}]}
`;
    const files = { token: 'Bearer t\r\n', '/run/secrets/seal-key': `${key}\n` };
    const config = configOf(text, { env: { DIR: '/run/secrets' }, files });
    expect(config.seal.keys[0]?.key).toBe(key);
    expect(config.routes[0]?.upstream.headers['authorization']).toBe('Bearer t');
  });

  test('elsewhere a file reference is only text', () => {
    const text = withRoute('seal: {audience: "file:/a"}\n');
    expect(configOf(text, { files: { '/a': 'x' } }).seal.audience).toBe('file:/a');
  });
});
