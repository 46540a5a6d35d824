import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, test } from 'vitest';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'mrtr-gateway-cli-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** Starts the program as an operator does, with nothing of this process's environment. */
function start(words: readonly string[], nodeFlags: readonly string[] = []) {
  return spawn(process.execPath, [...nodeFlags, 'bin/mrtr-gateway.js', ...words], {
    cwd: root,
    env: { PATH: process.env['PATH'] },
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

test('a misspelt flag is one line and exit code 64', async () => {
  expect(await finished(['--upstrem', 'http://a/'])).toEqual({
    code: 64,
    out: '',
    err: 'mrtr-gateway: unknown flag "--upstrem"; did you mean --upstream? (see mrtr-gateway --help)\n',
  });
});

test('a wrong configuration is exit code 78, with line and column', async () => {
  const file = join(folder, 'wrong.yaml');
  writeFileSync(file, 'routes:\n  - upstream:\n      url: ftp://x\n');
  expect(await finished(['--config', file])).toEqual({
    code: 78,
    out: '',
    err: `${file}:3:12 routes[0].upstream.url: expected an http or https URL, got "ftp://x"\n`,
  });
});

test('a missing configuration is exit code 78 and one line', async () => {
  const file = join(folder, 'missing.yaml');
  expect(await finished(['--config', file])).toEqual({
    code: 78,
    out: '',
    err: `cannot read ${file}: no such file or directory (ENOENT)\n`,
  });
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
  expect(await finished(words)).toEqual({
    code: 64,
    out: '',
    err: `mrtr-gateway: --seal-key-file: cannot read ${file} (ENOENT)\n`,
  });
  writeFileSync(file, 'not a key');
  const { code, err } = await finished(words);
  expect(code).toBe(64);
  expect(err).toMatch(/^mrtr-gateway: --seal-key-file\[0\]\.kid: expected a name/);
  expect(err).not.toContain('not a key');
});

test('a port that is taken is exit code 73 and one line that says so', async () => {
  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  const listen = `127.0.0.1:${(taken.address() as AddressInfo).port}`;
  // Nothing listens on the discard port, so the upstream is merely unavailable.
  const words = ['--upstream', 'http://127.0.0.1:9/mcp', '--listen', listen, '--admin', 'off'];
  const { code, out, err } = await finished(words);
  taken.close();
  expect({ code, out }).toEqual({ code: 73, out: '' });
  expect(err).toMatch(new RegExp(`^mrtr-gateway: .*${listen}.*$`, 'm'));
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
    expect(running[1]?.log).toMatch(
      new RegExp(`^mrtr-gateway: port \\d+ is in use; using ${ports[at]} \\(--${name} `, 'm'),
    );
  }
});

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
