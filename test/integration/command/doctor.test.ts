/** `mrtr-gateway doctor` in front of real servers, beside real gateways and a real Redis. */
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { request as httpRequest } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { run } from '../../../src/cli/run.ts';
import type { Finding } from '../../../src/doctor/finding.ts';
import { plantCanaries } from '../../fixtures/canaries.ts';
import { replica, legacyServer } from '../../fixtures/gateways/replica-testbed.ts';
import { SEAL } from '../../fixtures/gateways/gateway-process.ts';
import { privateAuthority } from '../../fixtures/network/private-authority.ts';
import { kept, legacy, listening, neverServe } from '../../fixtures/probing.ts';
import { startRedis } from '../../fixtures/redis/redis-server.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';
import { testHost } from '../../unit/cli/test-host.ts';

const EVERYTHING = fileURLToPath(
  import.meta.resolve('@modelcontextprotocol/server-everything/dist/index.js'),
);
/** A machine that runs other tests is slow, which none of these is about. */
const PATIENT = ['--timeout', '1m'];
const FREE = { listen: '127.0.0.1:0', admin: 'off' };

async function doctor(words: readonly string[], env: Record<string, string> = {}) {
  const host = testHost({ env });
  const code = await run(['doctor', ...words], host, neverServe);
  return { code, out: host.stdout.text, err: host.stderr.text };
}

/** Writes a configuration, and examines it. */
async function examined(config: object, env: Record<string, string> = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'mrtr-doctor-'));
  stopAfterTest(() => rm(folder, { recursive: true }));
  const file = join(folder, 'gateway.json');
  await writeFile(file, JSON.stringify({ ...FREE, ...config }));
  const { code, out } = await doctor(['--config', file, '--json', ...PATIENT], env);
  const report = JSON.parse(out) as { verdict: string; findings: Finding[] };
  const of = (check: string, which: string | null = null) =>
    report.findings.find((one) => one.check === check && one.of === which);
  return { code, ...report, of };
}

test('each check is a line in a fixed order, and one that failed is exit code 1', async () => {
  const server = await legacy();
  const folder = await mkdtemp(join(tmpdir(), 'mrtr-doctor-'));
  stopAfterTest(() => rm(folder, { recursive: true }));
  const file = join(folder, 'gateway.json');
  const routes = [
    { path: '/a/mcp', upstream: { url: server.url } },
    { path: '/b/mcp', upstream: { url: 'http://127.0.0.1:9/mcp' } },
  ];
  await writeFile(file, JSON.stringify({ ...FREE, routes }));
  const { code, out } = await doctor(['--config', file, ...PATIENT]);
  expect(code).toBe(1);
  const heads = out.split('\n').map((line) => /^(\w+) +(.*?):/.exec(line)?.slice(1).join(' '));
  expect(heads.filter((head) => head !== undefined)).toEqual([
    'ok configuration',
    'ok route /a/mcp',
    'failed route /b/mcp',
    'ok clock',
    expect.stringMatching(/^(ok|warning) open files$/),
    'ok port listen',
    'ok clients /a/mcp',
    'warning clients /b/mcp',
  ]);
  expect(out).toMatch(/route \/b\/mcp: no connection to .*: connection refused; check that/);
  expect(out).toMatch(/\n\d ok, \d warning, 1 failed\n$/);
});

test('a configuration that is wrong is one line for each problem, and nothing else is looked at', async () => {
  const { code, findings } = await examined({ routes: [{ upstream: { url: 'ftp://x' } }] });
  expect(code).toBe(1);
  expect(findings).toEqual([
    {
      check: 'configuration',
      of: null,
      verdict: 'failed',
      text: expect.stringMatching(
        /gateway\.json:1:\d+ routes\[0]\.upstream\.url: expected an http/,
      ),
    },
  ]);
});

test('no tool is called, and the session that was opened is ended', async () => {
  const calls: string[] = [];
  const tools = { act: async () => (calls.push('act'), 'acted') };
  const server = await legacy({ tools });
  const { code, out } = await doctor(['--upstream', server.url, '--admin', 'off', ...PATIENT]);
  expect(code).toBe(0);
  expect(out).toMatch(/^ok +route \/mcp: .*; 2025-\d\d-\d\d over Streamable HTTP; .*; 1 tools$/m);
  expect(calls).toEqual([]);
});

test('a server over stdio is started, and the names of its variables are told, but no value', async () => {
  plantCanaries(['doctor-secret-value']);
  const upstream = {
    command: process.execPath,
    args: [EVERYTHING],
    env: { API_KEY: '${KEY}' },
  };
  const env = { KEY: 'doctor-secret-value', PATH: String(process.env['PATH']) };
  const { code, of, findings } = await examined({ routes: [{ upstream }] }, env);
  expect(code).toBe(0);
  expect(of('route', '/mcp')?.text).toMatch(
    /mcp-servers\/everything; 2025-11-25 over stdio; .* its environment: PATH, API_KEY$/,
  );
  expect(JSON.stringify(findings)).not.toContain('doctor-secret-value');
});

test('a server that wants credentials of its clients is a warning, and a failure if it gets none', async () => {
  const url = `${await listening((_request, response) => response.writeHead(401, { 'www-authenticate': 'Bearer' }).end())}/mcp`;
  const forwarded = await examined({ routes: [{ upstream: { url } }] });
  expect(forwarded.of('route', '/mcp')).toMatchObject({
    verdict: 'warning',
    text: expect.stringContaining('it is reachable and wants the credentials of a client'),
  });
  const stripped = await examined({ routes: [{ upstream: { url, authorization: 'strip' } }] });
  expect(stripped.of('route', '/mcp')).toMatchObject({
    verdict: 'failed',
    text: expect.stringContaining('give it credentials in upstream.headers'),
  });
});

test('a server that stays silent is a failure after the timeout', async () => {
  const url = `${await listening(() => {})}/mcp`;
  const words = ['--upstream', url, '--admin', 'off', '--timeout', '300ms', '--json'];
  const { code, out } = await doctor(words);
  expect(code).toBe(1);
  expect(out).toContain('did not respond within 300 ms');
});

test('a clock that no server agrees with is a warning', async () => {
  const server = await legacy();
  const ahead = `${await listening((request, response) => {
    const { method, headers } = request;
    const passedOn = httpRequest(server.url, { method, headers }, (reply) => {
      const date = new Date(Date.now() + 3_600_000).toUTCString();
      response.writeHead(reply.statusCode ?? 500, { ...reply.headers, date });
      reply.pipe(response);
    });
    request.pipe(passedOn);
    passedOn.on('error', () => response.destroy());
    response.on('close', () => passedOn.destroy());
  })}/mcp`;
  const alone = await examined({ routes: [{ upstream: { url: ahead } }] });
  expect(alone.of('clock')).toMatchObject({
    verdict: 'warning',
    text: expect.stringMatching(
      /^3\d{3}\.\d s behind that of the server of \/mcp: set it with NTP/,
    ),
  });
  const routes = [
    { path: '/wrong', upstream: { url: ahead } },
    { path: '/right', upstream: { url: server.url } },
  ];
  expect((await examined({ routes })).of('clock')).toMatchObject({ verdict: 'ok' });
});

describe('Redis', { tags: ['redis'] }, () => {
  const routes = [{ upstream: { url: 'http://127.0.0.1:9/mcp' } }];

  test.each([
    [[], 'ok', /^Redis \d.* the clock of this machine is .* Redis, no maxmemory$/],
    [['--maxmemory', '50mb'], 'ok', /, noeviction$/],
    [
      ['--maxmemory', '50mb', '--maxmemory-policy', 'allkeys-lru'],
      'warning',
      /with maxmemory-policy allkeys-lru .*: set noeviction$/,
    ],
  ])('%j is %s', async (args, verdict, text) => {
    const redis = kept(await startRedis({ args }));
    const { of } = await examined({ routes, redis: { url: redis.url.href }, seal: SEAL });
    expect(of('redis')).toMatchObject({ verdict, text: expect.stringMatching(text) });
  });

  test('a password that is missing is a failure', async () => {
    const redis = kept(await startRedis({ args: ['--requirepass', 'redis-canary-password'] }));
    const { of } = await examined({ routes, redis: { url: redis.url.href }, seal: SEAL });
    expect(of('redis')).toMatchObject({
      verdict: 'failed',
      text: expect.stringContaining('requires a username or password'),
    });
  });

  test('one that is not there is a failure', async () => {
    const { of } = await examined({ routes, redis: { url: 'redis://127.0.0.1:9' }, seal: SEAL });
    expect(of('redis')).toMatchObject({
      verdict: 'failed',
      text: expect.stringContaining('refused the connection'),
    });
  });
});

test('ports of a gateway that runs are ok, and those of something else a failure', async () => {
  const server = await legacyServer({ tools: {} });
  const gateway = await replica(server);
  const [listen, admin] = [gateway.url, gateway.adminUrl].map((url) => new URL(url).host);
  const routes = [{ upstream: { url: server.url } }];
  const beside = await examined({ listen, admin, routes });
  for (const setting of ['listen', 'admin']) {
    expect(beside.of('port', setting)).toMatchObject({
      verdict: 'ok',
      text: expect.stringMatching(/ is in use, and mrtr-gateway \d+\.\d+\.\d+ runs here/),
    });
  }
  const other = await examined({ listen, routes });
  expect(other.of('port', 'listen')).toMatchObject({
    verdict: 'failed',
    text: expect.stringContaining('is in use by another process'),
  });
});

test('keys of access tokens are counted', async () => {
  const key = { kty: 'EC', crv: 'P-256', x: 'eA', y: 'eQ', use: 'sig', exp: 1_900_000_000 };
  const bodies = [
    { keys: [key, { ...key, use: 'enc' }] },
    { keys: [] },
    { keys: [{ ...key, d: 'x' }] },
  ];
  const results = [];
  for (const body of bodies) {
    const origin = await listening((_request, response) => response.end(JSON.stringify(body)));
    const identity = {
      source: 'jwt',
      issuer: 'https://auth.example.com',
      audiences: ['x'],
      jwks: { url: `${origin}/keys` },
    };
    const routes = [{ upstream: { url: 'http://127.0.0.1:9/mcp' } }];
    results.push((await examined({ routes, identity })).of('jwks'));
  }
  expect(results).toMatchObject([
    { verdict: 'warning', text: expect.stringMatching(/\/keys has 1 key, fetched without TLS/) },
    { verdict: 'failed', text: expect.stringContaining('no key for signatures') },
    { verdict: 'failed', text: expect.stringContaining('not a set of public keys') },
  ]);
});

test(
  'certificates are looked at wherever the configuration has them',
  { tags: ['redis-tls'] },
  async () => {
    const authority = await privateAuthority();
    const [good, old] = [
      await authority.issue('IP:127.0.0.1', 90),
      await authority.issue('IP:127.0.0.1', -1),
    ];
    const read = (file: string) => readFileSync(file, 'utf8');
    const routes = [{ upstream: { url: 'http://127.0.0.1:9/mcp' } }];
    const withTls = (tls: object) =>
      examined(
        { routes, seal: SEAL, redis: { url: 'rediss://127.0.0.1:9', tls } },
        { NODE_EXTRA_CA_CERTS: '/does/not/exist.pem' },
      );
    const fine = await withTls({
      ca: read(authority.caFile),
      cert: read(good.certFile),
      key: read(good.keyFile),
    });
    expect(fine.of('certificate', 'redis.tls.cert')).toMatchObject({
      verdict: 'ok',
      text: expect.stringMatching(/^CN=server expires in (89|90) days$/),
    });
    expect(fine.of('certificate', 'redis.tls.ca')).toMatchObject({
      verdict: 'warning',
      text: expect.stringMatching(/^CN=private authority expires in \d days: order a new one$/),
    });
    expect(fine.of('certificate', 'NODE_EXTRA_CA_CERTS')).toMatchObject({
      verdict: 'failed',
      text: expect.stringContaining('cannot be read'),
    });
    const expired = await withTls({ cert: read(old.certFile), key: read(old.keyFile) });
    expect(expired.of('certificate', 'redis.tls.cert')).toMatchObject({
      verdict: 'failed',
      text: expect.stringMatching(/^CN=server expired on /),
    });
    const swapped = await withTls({ cert: read(good.certFile), key: read(old.keyFile) });
    expect(swapped.of('certificate', 'redis.tls.cert')).toMatchObject({
      verdict: 'failed',
      text: 'the key beside it is that of another certificate',
    });
  },
);
