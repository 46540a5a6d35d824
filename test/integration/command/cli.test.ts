import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, test } from 'vitest';
import { COMMAND } from '../../fixtures/gateways/command.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const STDIO = fileURLToPath(new URL('../../fixtures/servers/stdio-server.js', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'mrtr-gateway-cli-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** Starts the program as an operator does, with nothing of this process's environment. */
function start(words: readonly string[], nodeFlags: readonly string[] = [], env = {}) {
  return spawn(process.execPath, [...nodeFlags, COMMAND, ...words], {
    cwd: root,
    env: { PATH: process.env['PATH'], ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

async function finished(words: readonly string[], nodeFlags: readonly string[] = []) {
  const child = start(words, nodeFlags);
  const [out, err, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ]);
  return { code: code as number | null, out, err };
}

/** Runs a gateway that does not start. @returns its exit code, and why */
async function failed(words: readonly string[], nodeFlags: readonly string[] = []) {
  const { code, err } = await finished(words, nodeFlags);
  const lines = err
    .split('\n')
    .filter((line) => line.includes('"gateway.start_failed"'))
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  for (const { level, time } of lines) {
    expect(level).toBe('fatal');
    expect(time).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
  }
  return { code, lines: lines.map(({ code, problem }) => ({ code, problem })) };
}

test('--help explains itself on standard output', async () => {
  const { code, out, err } = await finished(['--help']);
  expect({ code, err }).toEqual({ code: 0, err: '' });
  expect(out).toMatch(/^Usage:\n {2}mrtr-gateway \[serve] --upstream URL/);
});

test('--version prints the version of the package', async () => {
  const { code, out } = await finished(['--version']);
  expect(code).toBe(0);
  expect(out).toMatch(/^mrtr-gateway \d+\.\d+\.\d+\n$/);
});

test('a reader that goes away, as head does, is no error of the program', async () => {
  const child = start(['check', '--schema']);
  child.stdout.destroy();
  const [err, [code]] = await Promise.all([text(child.stderr), once(child, 'close')]);
  expect({ code, err }).toEqual({ code: 0, err: '' });
});

test.runIf(existsSync('/dev/full'))(
  'output that cannot be written is one line and exit code 70',
  async () => {
    const child = spawn(
      'sh',
      ['-c', '"$0" "$1" --version > /dev/full', process.execPath, COMMAND],
      {
        stdio: ['ignore', 'ignore', 'pipe'],
      },
    );
    const [err, [code]] = await Promise.all([text(child.stderr), once(child, 'close')]);
    expect(code).toBe(70);
    expect(err).toMatch(/^mrtr-gateway: cannot write the output: ENOSPC: .*\n$/);
  },
);

test('a misspelt flag is one line and exit code 64', async () => {
  const problem = 'unknown flag "--upstrem"; did you mean --upstream?';
  const wrong = ['--upstrem', 'http://a/'];
  expect(await finished([...wrong, '--log-format', 'pretty'])).toEqual({
    code: 64,
    out: '',
    err: `mrtr-gateway: ${problem} (see mrtr-gateway --help)\n`,
  });
  const { code, err } = await finished(wrong);
  expect(code).toBe(64);
  expect(JSON.parse(err)).toMatchObject({ event: 'gateway.start_failed', code: 'usage', problem });
});

test('check accepts the example', async () => {
  expect(await finished(['check', 'config/example.yaml'])).toEqual({
    code: 0,
    out: 'config/example.yaml: ok (1 route)\n',
    err: '',
  });
});

test('check names what the production example needs, with exit code 1', async () => {
  const { code, out, err } = await finished(['check', 'config/production.yaml']);
  expect({ code, out }).toEqual({ code: 1, out: '' });
  expect(err).toMatch(
    /^config\/production\.yaml:\d+:\d+ routes\[0\]\.upstream\.url: .* BILLING_URL/,
  );
});

test('keygen prints a key that check accepts', async () => {
  const key = await finished(['keygen']);
  expect(key).toMatchObject({ code: 0, err: '' });
  const file = join(folder, 'with-key.yaml');
  writeFileSync(file, `routes: [{upstream: {url: "http://a/"}}]\nseal:\n  keys:\n${key.out}`);
  expect(await finished(['check', file])).toMatchObject({ code: 0 });
});

test('a key in a file seals without a configuration file, and a missing file is named', async () => {
  const file = join(folder, 'seal.key');
  const words = ['--upstream', 'http://127.0.0.1:9/mcp', '--admin', 'off', '--seal-key-file', file];
  expect(await failed(words)).toEqual({
    code: 64,
    lines: [
      { code: 'config_unreadable', problem: `--seal-key-file: cannot read ${file} (ENOENT)` },
    ],
  });
  writeFileSync(file, 'not a key');
  const { code, err } = await finished(words);
  expect(code).toBe(64);
  expect(err).toContain('"problem":"--seal-key-file[0]: expected KID:KEY');
  expect(err).not.toContain('not a key');
});

describe('a gateway that does not start', () => {
  const upstream = ['--upstream', 'http://127.0.0.1:9/mcp', '--admin', 'off'];
  const withFile = (name: string, text: string) => {
    const file = join(folder, name);
    writeFileSync(file, text);
    return ['--config', file];
  };
  const route = 'routes: [{upstream: {url: "http://127.0.0.1:9/mcp"}}]\nadmin: off\n';
  /** Has each attempt to listen fail, as where a process is not allowed to. */
  const forbidden = `data:text/javascript,${encodeURIComponent(`
    import net from 'node:net';
    net.Server.prototype.listen = function () {
      throw Object.assign(new Error('listen EACCES'), { code: 'EACCES' });
    };`)}`;

  async function portInUse() {
    const taken = createServer().listen(0, '127.0.0.1');
    await once(taken, 'listening');
    stopAfterTest(async () => void taken.close());
    return `127.0.0.1:${(taken.address() as AddressInfo).port}`;
  }

  const cases: [string, number, string, RegExp, () => string[] | Promise<string[]>, string[]?][] = [
    [
      'a wrong configuration',
      78,
      'config_invalid',
      /wrong\.yaml:3:12 routes\[0\]\.upstream\.url: expected an http or https URL, got "ftp:\/\/x"$/,
      () => withFile('wrong.yaml', 'routes:\n  - upstream:\n      url: ftp://x\n'),
    ],
    [
      'a missing configuration',
      78,
      'config_unreadable',
      /^cannot read \S+missing\.yaml: no such file or directory \(ENOENT\)$/,
      () => ['--config', join(folder, 'missing.yaml')],
    ],
    [
      'a bad key',
      78,
      'config_invalid',
      /key\.yaml:5:\d+ seal\.keys\[0\]\.key: expected .*keygen/,
      () => withFile('key.yaml', `${route}seal:\n  keys:\n    - {kid: a, key: c2hvcnQ}\n`),
    ],
    [
      'a port in use',
      73,
      'port_in_use',
      /^127\.0\.0\.1:\d+ is in use by another process; stop it or choose another address with --listen/,
      async () => [...upstream, '--listen', await portInUse()],
    ],
    [
      'a port that is not permitted',
      77,
      'not_permitted',
      /^not permitted to listen on 127\.0\.0\.1:80; choose a port above 1023 with --listen/,
      () => [...upstream, '--listen', '127.0.0.1:80'],
      ['--import', forbidden],
    ],
    [
      'an absent Redis',
      69,
      'redis_unavailable',
      /^redis\.url: Redis at redis:\/\/127\.0\.0\.1:9 refused the connection; check that Redis runs at redis\.url$/,
      () =>
        withFile(
          'redis.yaml',
          `listen: 127.0.0.1:0\n${route}relay: {listen: "127.0.0.1:0"}\nredis: {url: "redis://127.0.0.1:9", startWait: 1s}\nseal: {keys: [{kid: a, key: "${'A'.repeat(43)}"}]}\n`,
        ),
    ],
  ];

  // Rule start-1: Each problem that prevents the start is one line with a code, and `gateway.start_failed` in JSON.
  test.each(cases)('says so: %s', async (_what, exitCode, code, problem, wordsOf, flags = []) => {
    const words = await wordsOf();
    const [logged, told] = await Promise.all([
      failed(words, flags),
      finished([...words, '--log-format', 'pretty'], flags),
    ]);
    expect(logged).toEqual({
      code: exitCode,
      lines: [{ code, problem: expect.stringMatching(problem) }],
    });
    expect(told).toMatchObject({ code: exitCode, out: '' });
    const lines = told.err.split('\n').filter((line) => line.endsWith(` (${code})`));
    expect(lines).toHaveLength(1);
    const text = lines[0]!.replace(/^mrtr-gateway: /, '').slice(0, -` (${code})`.length);
    expect(text).toMatch(problem);
  });

  test('a start that waits for Redis says so once', async () => {
    const words = withFile(
      'waiting.yaml',
      `listen: 127.0.0.1:0\nadmin: off\nroutes: [{upstream: {url: "http://127.0.0.1:9/mcp"}}]\nrelay: {listen: "127.0.0.1:0"}\nredis: {url: "redis://127.0.0.1:9", startWait: 2s}\nseal: {keys: [{kid: a, key: "${'A'.repeat(43)}"}]}\n`,
    );
    const { err } = await finished(words);
    expect(err.match(/"redis\.waiting","startWaitMs":2000/g)).toHaveLength(1);
  });
});

test('a second gateway without a file takes the next free ports, and says which', async () => {
  const upstream = ['--upstream', 'http://127.0.0.1:9/mcp'];
  const running = [];
  for (const _which of ['first', 'second']) {
    const child = start(upstream);
    let log = '';
    const listening = new Promise<string>((resolve) => {
      child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
        log += chunk;
        if (log.includes('gateway.listening')) resolve(log);
      });
    });
    const closed = once(child, 'close');
    running.push({ child, closed, log: await Promise.race([listening, closed.then(() => log)]) });
  }
  const addresses = running.map(({ log }) => [
    /"gateway\.listening".*?"url":"([^"]+)"/.exec(log)?.[1],
    /"admin":"([^"]+)"/.exec(log)?.[1],
  ]);
  for (const { child } of running) child.kill('SIGTERM');
  await Promise.all(running.map(({ closed }) => closed));
  const ports = addresses.flat().map((address) => new URL(address ?? '').port);
  expect(new Set(ports).size).toBe(4);
  for (const [at, name] of [
    [2, 'listen'],
    [3, 'admin'],
  ] as const) {
    const told = new RegExp(`"gateway.port_in_use","flag":"--${name}",.*"instead":${ports[at]},`);
    expect(running[1]?.log).toMatch(told);
  }
});

// Rule start-3.
test.each([
  ['127.0.0.1:0', []],
  ['0.0.0.0:0', ['listen', 'seal.keys']],
])('a gateway without a file that listens on %s has these risks: %j', async (address, fields) => {
  const upstream = ['--upstream', 'http://127.0.0.1:9/mcp', '--admin', 'off'];
  const risks = await risksOf(start([...upstream, '--listen', address]));
  expect(risks.map(({ field }) => field)).toEqual(fields);
});

// Rule stdio-12.
test('a secret that a server over stdio can read is a warning of the log at the start', async () => {
  const key = Buffer.alloc(32, 'a key').toString('base64url');
  const server = ['--stdio', '--', process.execPath, STDIO];
  const words = ['--listen', '127.0.0.1:0', '--admin', 'off', ...server];
  const risks = await risksOf(start(words, [], { MRTR_GATEWAY_SEAL_KEY: `a:${key}` }));
  expect(risks).toMatchObject([
    { field: 'routes[0].upstream.command', problem: expect.stringContaining('SEAL_KEY in its') },
  ]);
  expect(JSON.stringify(risks)).not.toContain(key);
});

/** Ends a gateway as soon as it listens. @returns the risks that it logged */
async function risksOf(child: ReturnType<typeof start>): Promise<Record<string, unknown>[]> {
  let log = '';
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
    if (!log.includes('gateway.listening') && chunk.includes('gateway.listening')) {
      child.kill('SIGTERM');
    }
    log += chunk;
  });
  await once(child, 'close');
  const lines = log.trim().split('\n');
  const risky = lines.filter((line) => line.includes('"config.risky"'));
  return risky.map((line) => JSON.parse(line) as Record<string, unknown>);
}

test.each(['json', 'pretty'])(
  'SIGTERM stops it with exit code 0, and the %s log says so',
  async (format) => {
    const upstream = ['--upstream', 'http://127.0.0.1:9/mcp', '--listen', '127.0.0.1:0'];
    const child = start([...upstream, '--admin', 'off', '--log-format', format]);
    const out = text(child.stdout);
    let log = '';
    const listening = Promise.withResolvers<void>();
    child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
      log += chunk;
      if (log.includes('gateway.listening')) listening.resolve();
    });
    const closed = once(child, 'close');
    closed.then(() => listening.reject(new Error(log)), listening.reject);
    await listening.promise;
    child.kill('SIGTERM');
    expect(await closed).toEqual([0, null]);
    expect(log).toContain('gateway.stopped');
    expect(await out).toBe('');
  },
);

test.each(['json', 'pretty'])(
  'when the reader of a %s log goes, the gateway stays',
  async (format) => {
    const upstream = ['--upstream', 'http://127.0.0.1:9/mcp', '--listen', '127.0.0.1:0'];
    const words = [...upstream, '--admin', 'off', '--log-level', 'debug', '--log-format', format];
    const child = start(words);
    let log = '';
    const url = Promise.withResolvers<string>();
    child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
      log += chunk;
      const found = /gateway\.listening.*?(http:\/\/127\.0\.0\.1:\d+\/mcp)(?=["\s])/s.exec(log);
      if (found?.[1] !== undefined) url.resolve(found[1]);
    });
    const closed = once(child, 'close');
    const address = await url.promise;
    child.stderr.destroy();
    for (let times = 0; times < 3; times += 1) {
      expect((await fetch(address, { method: 'POST', body: 'nothing' })).status).toBe(415);
    }
    child.kill('SIGTERM');
    child.stdout.destroy();
    expect(await closed).toEqual([0, null]);
  },
);

test('an old Node.js is told which one is needed, with exit code 64', async () => {
  const pretend =
    'Object.defineProperty(process,"versions",{value:{...process.versions,node:"20.20.2"}})';
  const { code, out, err } = await finished(
    ['--help'],
    ['--import', `data:text/javascript,${pretend}`],
  );
  expect({ code, out }).toEqual({ code: 64, out: '' });
  expect(err).toMatch(
    /^mrtr-gateway: requires Node\.js 22\.19 or newer \(found 20\.20\.2\)\. .*\n$/,
  );
});
