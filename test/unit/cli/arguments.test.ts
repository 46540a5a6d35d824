import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { nameOfValue, parseArguments } from '../../../src/cli/arguments.ts';
import { FLAGS } from '../../../src/cli/flags.ts';
import { UsageError } from '../../../src/cli/words.ts';

const words = (line: string) => line.split(' ').filter((word) => word !== '');
const command = (line: string, env: Record<string, string> = {}) =>
  parseArguments(words(line), env);

function problem(line: string, env: Record<string, string> = {}): string {
  const result = command(line, env);
  return result instanceof UsageError ? result.message : `no problem: ${JSON.stringify(result)}`;
}

describe('what command lines mean', () => {
  test.each([
    [
      '--upstream http://a/',
      { kind: 'serve-upstream', values: { upstream: 'http://a/' }, sealKeyFile: null },
    ],
    [
      'serve --upstream=http://a/',
      { kind: 'serve-upstream', values: { upstream: 'http://a/' }, sealKeyFile: null },
    ],
    [
      '--upstream u --listen l --path p --admin a --transport t --log-level v --log-format f',
      {
        kind: 'serve-upstream',
        values: {
          upstream: 'u',
          listen: 'l',
          path: 'p',
          admin: 'a',
          transport: 't',
          'log-level': 'v',
          'log-format': 'f',
        },
        sealKeyFile: null,
      },
    ],
    ['--config c.yaml', { kind: 'serve-file', file: 'c.yaml', overrides: {} }],
    [
      '--config c.yaml --listen :1 --log-level debug',
      { kind: 'serve-file', file: 'c.yaml', overrides: { listen: ':1', 'log-level': 'debug' } },
    ],
    ['check c.yaml', { kind: 'check', file: 'c.yaml' }],
    ['check -- -c.yaml', { kind: 'check', file: '-c.yaml' }],
    ['check --schema', { kind: 'schema' }],
    ['keygen', { kind: 'keygen', format: 'yaml' }],
    ['keygen --format env', { kind: 'keygen', format: 'env' }],
    ['completion fish', { kind: 'completion', shell: 'fish' }],
    ['-c c.yaml', { kind: 'serve-file', file: 'c.yaml', overrides: {} }],
    ['help', { kind: 'help', command: 'serve' }],
    ['help probe', { kind: 'help', command: 'probe' }],
    ['version', { kind: 'version' }],
    ['-v', { kind: 'version' }],
    [
      '--upstream u --upstream-header A:b:c --max-event 1MiB --session-scope call --seal-key-file f',
      {
        kind: 'serve-upstream',
        values: {
          upstream: 'u',
          'upstream-header': { a: 'b:c' },
          'max-event': '1MiB',
          'session-scope': 'call',
        },
        sealKeyFile: 'f',
      },
    ],
    [
      'probe http://a/',
      {
        kind: 'probe',
        upstream: 'http://a/',
        headers: {},
        timeoutMs: 10_000,
        call: null,
        json: false,
      },
    ],
    [
      'probe --json --timeout=2m --header X-A:b:c --header=X-D:e http://a/',
      {
        kind: 'probe',
        upstream: 'http://a/',
        headers: { 'x-a': 'b:c', 'x-d': 'e' },
        timeoutMs: 120_000,
        call: null,
        json: true,
      },
    ],
    [
      '--stdio --listen :1 --env A=b=c -- npx -y server --port 1',
      {
        kind: 'serve-upstream',
        values: {
          upstream: { command: 'npx', args: ['-y', 'server', '--port', '1'], env: { A: 'b=c' } },
          listen: ':1',
        },
        sealKeyFile: null,
      },
    ],
    [
      'probe --stdio --timeout 1s -- server',
      {
        kind: 'probe',
        upstream: { command: 'server', args: [], env: {} },
        headers: {},
        timeoutMs: 1_000,
        call: null,
        json: false,
      },
    ],
    [
      'probe --call ask:{"a":1} http://a/',
      {
        kind: 'probe',
        upstream: 'http://a/',
        headers: {},
        timeoutMs: 10_000,
        call: { tool: 'ask', arguments: { a: 1 } },
        json: false,
      },
    ],
    ['probe --help', { kind: 'help', command: 'probe' }],
    ['--help', { kind: 'help', command: 'serve' }],
    ['-h', { kind: 'help', command: 'serve' }],
    ['check --help', { kind: 'help', command: 'check' }],
    ['keygen -h', { kind: 'help', command: 'keygen' }],
    ['--version', { kind: 'version' }],
  ])('%s', (line, meaning) => {
    expect(command(line)).toEqual(meaning);
  });
});

describe('wrong command lines', () => {
  test.each([
    ['', 'nothing to serve: give --upstream URL, --stdio -- COMMAND, --config FILE or --from FILE'],
    ['--stdio', '--stdio needs a command after "--", such as --stdio -- npx -y SERVER'],
    ['--stdio npx -y a', '--stdio needs a command after "--", such as --stdio -- npx -y SERVER'],
    ['--stdio a', '--stdio needs a command after "--", such as --stdio -- npx -y SERVER'],
    ['--stdio a -- b', 'unexpected argument "a"'],
    ['-- a', 'unexpected argument "a"'],
    ['--stdio --upstream http://a/ -- b', '--stdio cannot be combined with --upstream'],
    ['--stdio --config a -- b', '--stdio cannot be combined with --config'],
    ['--stdio --transport auto -- b', '--stdio cannot be combined with --transport'],
    ['--upstream http://a/ --env A=b', '--env needs --stdio'],
    ['--stdio --env UNSET -- b', '--env "UNSET": the variable is not set'],
    ['probe --stdio', '--stdio needs a command after "--", such as --stdio -- npx -y SERVER'],
    ['probe http://a/ --stdio -- b', 'a URL cannot be combined with --stdio'],
    ['probe --stdio --header A:b -- c', '--header cannot be combined with --stdio'],
    ['probe --stdio --call a -- c', '--call cannot be combined with --stdio'],
    [
      'probe --call a:[] http://a/',
      '--call needs TOOL or TOOL:JSON, such as --call \'ask:{"name":"Ada"}\'',
    ],
    [
      'probe --call :{} http://a/',
      '--call needs TOOL or TOOL:JSON, such as --call \'ask:{"name":"Ada"}\'',
    ],
    ['--upstrem http://a/', 'unknown flag "--upstrem"; did you mean --upstream?'],
    ['--Listen :1', 'unknown flag "--Listen"; did you mean --listen?'],
    ['-x', 'unknown flag "-x"'],
    ['--telemetry', 'unknown flag "--telemetry"'],
    ['--schema', '--schema is a flag of "check", not of "serve"'],
    ['keygen --upstream a', '--upstream is a flag of "serve", not of "keygen"'],
    ['--upstream', '--upstream needs a value: --upstream URL'],
    ['--upstream=', '--upstream needs a value: --upstream URL'],
    ['--upstream --listen :1', '--upstream needs a value: --upstream URL'],
    ['--upstream a --upstream b', '--upstream is given twice'],
    ['--help=yes', '--help takes no value'],
    [
      '--upstream a --config b',
      '--config and --upstream cannot be combined: the file names the upstream',
    ],
    ['--config b --path /a', '--path cannot be combined with --config; set routes[].path'],
    [
      '--config b --transport auto',
      '--transport cannot be combined with --config; set routes[].upstream.transport',
    ],
    ['--upstream a b', 'unexpected argument "b"'],
    ['http://127.0.0.1:1/mcp', 'unexpected URL; use --upstream URL'],
    ['chek c.yaml', 'unknown command "chek"; did you mean "check"?'],
    [
      'frobnicate',
      'unknown command "frobnicate"; expected one of serve, check, probe, doctor, connect, mcp.json, top, keygen, completion',
    ],
    ['check', '"check" needs a file: mrtr-gateway check FILE'],
    ['check a b', 'unexpected argument "b"'],
    ['check --schema a', 'unexpected argument "a"'],
    ['connect --print', '--print needs a client: mrtr-gateway connect CLIENT --print'],
    ['connect --url http://a/ --yes', '--url needs a client: mrtr-gateway connect CLIENT --url'],
    ['probe', '"probe" needs a URL: mrtr-gateway probe URL'],
    ['probe a b', 'unexpected argument "b"'],
    ['probe a --timeout soon', '--timeout needs a duration from 100ms to 10m, such as 30s'],
    ['probe a --timeout 1', '--timeout needs a duration from 100ms to 10m, such as 30s'],
    ['probe a --timeout 1h', '--timeout needs a duration from 100ms to 10m, such as 30s'],
    ['probe a --header hunter2', '--header needs a name and a value: --header "Name: value"'],
    ['probe a --header :hunter2', '--header needs a name and a value: --header "Name: value"'],
    ['probe a --header X-A:b --header x-a:hunter2', '--header "x-a" is given twice'],
    ['probe a --header', '--header needs a value: --header NAME:VALUE'],
    ['probe a --upstream b', '--upstream is a flag of "serve", not of "probe"'],
    ['--json', '--json is a flag of "probe", not of "serve"'],
    ['keygen a', 'unexpected argument "a"'],
    ['keygen --format pem', '--format: expected one of yaml, env, raw, json, got "pem"'],
    [
      'top 127.0.0.1:9496',
      '"top" needs the URL of an admin listener, got "127.0.0.1:9496"; did you mean "http://127.0.0.1:9496"?',
    ],
    ['top ftp://a/', '"top" needs the URL of an admin listener, such as http://127.0.0.1:9464'],
    ['completion', '"completion": expected one of bash, zsh, fish, got nothing'],
    ['completion csh', '"completion": expected one of bash, zsh, fish, got "csh"'],
    ['completion bash zsh', 'unexpected argument "zsh"'],
    [
      'help frobnicate',
      'unknown command "frobnicate"; expected one of serve, check, probe, doctor, connect, mcp.json, top, keygen, completion',
    ],
    [
      '--config b --seal-key-file a',
      '--seal-key-file cannot be combined with --config; set seal.keys',
    ],
    ['--stdio --upstream-header A:b -- c', '--stdio cannot be combined with --upstream-header'],
    [
      '--upstream a --upstream-header hunter2',
      '--upstream-header needs a name and a value: --upstream-header "Name: value"',
    ],
  ])('%j', (line, message) => {
    expect(problem(line)).toBe(message);
  });

  test('any words at all give a command or one line', () => {
    const flags = Object.values(FLAGS).flat();
    const word = fc.oneof(
      fc.constantFrom(
        'serve',
        'check',
        'probe',
        'keygen',
        '--',
        '-',
        '--=',
        ...flags.map(({ name }) => `--${name}`),
      ),
      fc.constantFrom(...flags.map(({ name }) => `--${name}=x`), '-hV', '-hx', '--no-help'),
      fc.string(),
    );
    fc.assert(
      fc.property(fc.array(word, { maxLength: 6 }), (words) => {
        const result = parseArguments(words, {});
        expect(typeof result.kind).toBe('string');
        if (result instanceof UsageError) expect(result.message).toMatch(/^[^\n]+$/);
      }),
      { numRuns: 500 },
    );
  });
});

describe('the environment', () => {
  const env = { MRTR_GATEWAY_UPSTREAM: 'http://e/', MRTR_GATEWAY_LISTEN: ':2' };

  test('stands in for flags that are not given', () => {
    expect(command('--log-level warn', { ...env, MRTR_GATEWAY_LOG_LEVEL: 'debug' })).toEqual({
      kind: 'serve-upstream',
      values: { upstream: 'http://e/', listen: ':2', 'log-level': 'warn' },
      sealKeyFile: null,
    });
  });

  test('has what a container needs first', () => {
    const container = {
      MRTR_GATEWAY_UPSTREAM: 'http://e/',
      MRTR_GATEWAY_ADMIN: ':9',
      MRTR_GATEWAY_TRANSPORT: 'sse',
      MRTR_GATEWAY_UPSTREAM_HEADER: 'Authorization: Bearer a\nX-Tenant: b\n',
      MRTR_GATEWAY_SESSION_SCOPE: 'shared',
      MRTR_GATEWAY_LOG_FORMAT: 'json',
      MRTR_GATEWAY_SEAL_KEY: 'k1:c',
    };
    expect(command('', container)).toEqual({
      kind: 'serve-upstream',
      values: {
        upstream: 'http://e/',
        admin: ':9',
        transport: 'sse',
        'upstream-header': { authorization: 'Bearer a', 'x-tenant': 'b' },
        'session-scope': 'shared',
        'log-format': 'json',
        'seal-key': 'k1:c',
      },
      sealKeyFile: null,
    });
  });

  test('gives the file of the keys precedence over the keys', () => {
    const keys = { MRTR_GATEWAY_SEAL_KEY: 'k1:c', MRTR_GATEWAY_SEAL_KEY_FILE: 'keys' };
    expect(command('', { ...env, ...keys })).toMatchObject({ sealKeyFile: 'keys' });
    expect(command('', { ...env, ...keys })).not.toHaveProperty(['values', 'seal-key']);
  });

  test('can name the file', () => {
    expect(command('', { MRTR_GATEWAY_CONFIG: 'c.yaml', MRTR_GATEWAY_LISTEN: ':2' })).toEqual({
      kind: 'serve-file',
      file: 'c.yaml',
      overrides: { listen: ':2' },
    });
  });

  test('counts less than a flag that excludes it', () => {
    expect(command('--config c.yaml', { MRTR_GATEWAY_UPSTREAM: 'http://e/' })).toMatchObject({
      file: 'c.yaml',
    });
    expect(command('--upstream http://a/', { MRTR_GATEWAY_CONFIG: 'c.yaml' })).toMatchObject({
      values: { upstream: 'http://a/' },
    });
  });

  test('must not contradict itself', () => {
    expect(problem('', { ...env, MRTR_GATEWAY_CONFIG: 'c.yaml' })).toBe(
      'MRTR_GATEWAY_CONFIG and MRTR_GATEWAY_UPSTREAM cannot be combined: unset one of them',
    );
  });

  test('does not count where it is empty', () => {
    expect(problem('', { MRTR_GATEWAY_UPSTREAM: '' })).toMatch(/^nothing to serve/);
  });

  test('is named in messages about values that came from it', () => {
    expect(nameOfValue([], env, 'upstream')).toBe('MRTR_GATEWAY_UPSTREAM');
    expect(nameOfValue(['--upstream=a'], env, 'upstream')).toBe('--upstream');
    expect(nameOfValue(['--upstream', 'a'], env, 'upstream')).toBe('--upstream');
    expect(nameOfValue([], env, 'log-level')).toBe('--log-level');
  });
});
