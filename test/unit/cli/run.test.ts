import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { run } from '../../../src/cli/run.ts';
import type { Start } from '../../../src/cli/serve.ts';
import type { Config } from '../../../src/config/schema.ts';
import { StartFailure } from '../../../src/lib/program.ts';
import { testHost } from './test-host.ts';

const folder = mkdtempSync(join(tmpdir(), 'mrtr-gateway-run-'));
afterAll(() => rmSync(folder, { recursive: true }));
const good = join(folder, 'good.yaml');
writeFileSync(good, 'listen: :1\nroutes: [{upstream: {url: "http://127.0.0.1:3001/mcp"}}]\n');
const bad = join(folder, 'bad.yaml');
writeFileSync(bad, 'listn: :1\nroutes: [{upstream: {url: "${URL}"}}]\n');

/** Runs, and notes the configuration that it would have started. */
async function running(words: string[], env: Record<string, string> = {}) {
  const host = testHost({ env, errors: 'terminal' });
  const configs: Config[] = [];
  const start: Start = (config) => {
    configs.push(config);
    return Promise.reject(new StartFailure('port_in_use', 'not in this test'));
  };
  const code = await run(words, host, start);
  return { code, out: host.stdout.text, err: host.stderr.text, config: configs[0] ?? null };
}

describe('serving', () => {
  test('from flags', async () => {
    const { config } = await running(['--upstream', 'http://a/', '--listen', ':5']);
    expect(config?.routes[0]?.upstream.url?.href).toBe('http://a/');
    expect(config?.listen.port).toBe(5);
  });

  test('from a file, with flags that win over it', async () => {
    const { config } = await running(['--config', good, '--listen', ':5']);
    expect(config?.routes).toHaveLength(1);
    expect(config?.listen.port).toBe(5);
  });

  describe('where MRTR_GATEWAY_LISTEN_DEFAULT is set, as in the container image', () => {
    const silent = join(folder, 'silent.yaml');
    writeFileSync(silent, 'routes: [{upstream: {url: "http://127.0.0.1:3001/mcp"}}]\n');
    const env = { MRTR_GATEWAY_LISTEN_DEFAULT: ':9' };
    const upstream = ['--upstream', 'http://a/'];

    test.each([
      ['nothing else says it', upstream, {}, '0.0.0.0', 9],
      ['the file does not say it', ['--config', silent], {}, '0.0.0.0', 9],
      ['a flag says it', [...upstream, '--listen', '127.0.0.1:5'], {}, '127.0.0.1', 5],
      ['a variable says it', upstream, { MRTR_GATEWAY_LISTEN: '127.0.0.1:6' }, '127.0.0.1', 6],
      ['the file says it', ['--config', good], {}, '0.0.0.0', 1],
      ['it is empty', ['--config', silent], { MRTR_GATEWAY_LISTEN_DEFAULT: '' }, '127.0.0.1', 8080],
    ] as const)('it counts or not: %s', async (_case, words, more, host, port) => {
      const { config } = await running([...words], { ...env, ...more });
      expect(config?.listen).toEqual({ host, port });
    });
  });

  test('a wrong value of a flag is a usage error of one line', async () => {
    const { code, out, err, config } = await running(['--upstream', 'localhost:3001']);
    expect({ code, out, config }).toEqual({ code: 64, out: '', config: null });
    expect(err).toBe(
      'mrtr-gateway: --upstream: expected an http or https URL, got "localhost:3001"; did you mean "http://localhost:3001"? (config_invalid)\n',
    );
  });

  test('a wrong value in the environment is named by its variable', async () => {
    const { code, err } = await running([], { MRTR_GATEWAY_UPSTREAM: 'x' });
    expect(code).toBe(64);
    expect(err).toMatch(/^mrtr-gateway: MRTR_GATEWAY_UPSTREAM: expected an http or https URL/);
  });

  test('a wrong flag beside a good file is a usage error', async () => {
    const { code, err } = await running(['--config', good, '--admin', 'x']);
    expect(code).toBe(64);
    expect(err).toMatch(/^mrtr-gateway: --admin: expected an address/);
  });

  test('a wrong file is exit code 78, and its lines begin with its name', async () => {
    const { code, err, config } = await running(['--config', bad], { URL: 'http://a/' });
    expect({ code, config }).toEqual({ code: 78, config: null });
    expect(err).toBe(`${bad}:1:1 listn: unknown key; did you mean "listen"? (config_invalid)\n`);
  });
});

describe('variables that have no effect', () => {
  const referring = join(folder, 'referring.yaml');
  writeFileSync(
    referring,
    'routes: [{upstream: {url: "${MRTR_GATEWAY_SERVER}", headers: {X-Key: "file:${MRTR_GATEWAY_FILE:-key}"}}}]\n',
  );
  writeFileSync(join(folder, 'key'), 'x');
  const typo = { MRTR_GATEWAY_ADMNI: 'hunter2', NO_COLOR: '1' };
  const used = { MRTR_GATEWAY_SERVER: 'http://a/' };
  const told = (err: string) => err.split('\n').filter((line) => line.includes('unknown_variable'));

  test.each([
    ['a file', ['--config', referring], used],
    ['flags', ['--upstream', 'http://a/'], {}],
    ['a server over stdio', ['--stdio', '--env', 'MRTR_GATEWAY_SERVER', '--', 'cat'], used],
  ])('are warned of once at start, but not those that are used: %s', async (_of, words, more) => {
    const { err, config } = await running(words, { ...typo, ...more });
    expect(config).not.toBeNull();
    expect(told(err)).toEqual([
      expect.stringMatching(
        / WARN {2}gateway\.unknown_variable name=MRTR_GATEWAY_ADMNI nearest=MRTR_GATEWAY_ADMIN /,
      ),
    ]);
    expect(err).not.toContain('hunter2');
  });

  test('are warned of by check', async () => {
    const { code, out, err } = await running(['check', referring], { ...typo, ...used });
    expect({ code, out, err }).toEqual({
      code: 0,
      out: `${referring}: ok (1 route, 1 warning)\n`,
      err: 'warning: unknown variable "MRTR_GATEWAY_ADMNI"; did you mean MRTR_GATEWAY_ADMIN?\n',
    });
  });

  const ignored = { MRTR_GATEWAY_PATH: '/hunter2', MRTR_GATEWAY_SEAL_KEY: 'a:hunter2' };

  test('since there is a file are warned of at start, with the fields of the file', async () => {
    const env = { ...ignored, ...used, MRTR_GATEWAY_LISTEN: ':5', NO_COLOR: '1' };
    const { err, config } = await running(['--config', referring], env);
    expect(config?.listen.port).toBe(5);
    expect(err.split('\n').filter((line) => line.includes('_variable'))).toEqual([
      expect.stringMatching(
        / WARN {2}gateway\.unused_variable name=MRTR_GATEWAY_PATH field=routes\[\]\.path /,
      ),
      expect.stringMatching(/ name=MRTR_GATEWAY_SEAL_KEY field=seal\.keys /),
    ]);
    expect(err).not.toContain('hunter2');
  });

  test('since there is a file are warned of by check', async () => {
    const upstream = { MRTR_GATEWAY_UPSTREAM: 'http://hunter2/' };
    const { out, err } = await running(['check', referring], { ...ignored, ...upstream, ...used });
    expect(out).toBe(`${referring}: ok (1 route, 3 warnings)\n`);
    expect(err.split('\n')).toEqual([
      'warning: MRTR_GATEWAY_UPSTREAM has no effect with a file; set routes[].upstream.url in a configuration file',
      'warning: MRTR_GATEWAY_PATH has no effect with a file; set routes[].path in a configuration file',
      'warning: MRTR_GATEWAY_SEAL_KEY has no effect with a file; set seal.keys in a configuration file',
      '',
    ]);
  });

  test('are not warned of without a file', async () => {
    const { err, config } = await running(['--upstream', 'http://a/', '--listen', ':5'], {
      MRTR_GATEWAY_PATH: '/a',
    });
    expect(config?.routes[0]?.path).toBe('/a');
    expect(err).not.toContain('_variable');
  });

  test('are named if nothing else is given', async () => {
    const { code, err } = await running([], { MRTR_GATEWAY_UPSTREM: 'http://hunter2/' });
    expect(code).toBe(64);
    expect(err).toBe(
      'mrtr-gateway: nothing to serve: give --upstream URL, --stdio -- COMMAND, --config FILE or --from FILE; unknown variable "MRTR_GATEWAY_UPSTREM"; did you mean MRTR_GATEWAY_UPSTREAM? (see mrtr-gateway --help)\n',
    );
  });
});

describe('check', () => {
  test('says on standard output that a file is good', async () => {
    const safe = join(folder, 'safe.yaml');
    writeFileSync(safe, 'routes: [{upstream: {url: "http://127.0.0.1:3001/mcp"}}]\n');
    expect(await running(['check', safe])).toMatchObject({
      code: 0,
      out: `${safe}: ok (1 route)\n`,
      err: '',
    });
  });

  test('notes what has to be true elsewhere', async () => {
    const file = join(folder, 'notes.yaml');
    writeFileSync(
      file,
      [
        'routes:',
        '  - publicUrl: https://mcp.example/mcp',
        '    upstream: {url: "http://a/", forwardHeaders: [X-API-Key, X-Region]}',
      ].join('\n'),
    );
    const { code, out } = await running(['check', file]);
    expect({ code, lines: out.split('\n') }).toEqual({
      code: 0,
      lines: [
        `${file}: ok (1 route)`,
        'routes[0].publicUrl: clients get tokens for https://mcp.example/mcp; the server must accept this audience',
        'routes[0].upstream.forwardHeaders: if x-api-key tells users apart, name it in identity.credentialHeaders, too',
        '',
      ],
    });
  });

  test('warns on standard error of what is valid but risky', async () => {
    const { code, out, err } = await running(['check', good]);
    expect({ code, out }).toEqual({ code: 0, out: `${good}: ok (1 route, 2 warnings)\n` });
    expect(err).toMatch(/^\S+good\.yaml:1:9 warning: listen: .* is open to the network, /m);
  });

  test('says on standard error what is wrong, with references resolved as when serving', async () => {
    const { code, out, err } = await running(['check', bad]);
    expect({ code, out }).toEqual({ code: 1, out: '' });
    expect(err).toMatch(/:2:27 routes\[0\]\.upstream\.url: expected the environment variable URL,/);
  });
});

test.each([
  ['probe http://a/ --timeout 5', 'probe --help'],
  ['keygen --format xx', 'keygen --help'],
  ['top 127.0.0.1:9496', 'top --help'],
  ['check', 'check --help'],
  ['completion csh', 'completion --help'],
  ['serve --upstrem a', '--help'],
  ['prob http://a/', '--help'],
])('a usage error names the help of its command (%s)', async (line, help) => {
  const { code, err } = await running(line.split(' '));
  expect(code).toBe(64);
  expect(err).toMatch(new RegExp(` \\(see mrtr-gateway ${help}\\)\\n$`));
});

test('nothing is printed to standard output for a usage error', async () => {
  expect(await running(['--upstrem', 'a'])).toEqual({
    code: 64,
    out: '',
    err: 'mrtr-gateway: unknown flag "--upstrem"; did you mean --upstream? (see mrtr-gateway --help)\n',
    config: null,
  });
});
