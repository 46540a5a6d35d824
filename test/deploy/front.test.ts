/**
 * deploy/front, started: nginx with its configuration, the gateway with its configuration, the reference server behind it, and
 * the official client in front, over TLS. Where oauth2-proxy is not installed, a service with the same contract stands in its place.
 */
import { execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage } from 'node:http';
import { get } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text as textOf } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { createRemoteJWKSet, jwtVerify } from 'jose';
import { Agent, fetch as fetchOver } from 'undici';
import { describe, expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load/load.ts';
import { modernBody, modernHeaders } from '../fixtures/clients/modern-client.ts';
import { freePort, startEverything, startServer } from '../fixtures/processes.ts';
import { AuthorizationServer, RESOURCE } from '../fixtures/servers/authorization-server.ts';
import { stopAfterTest } from '../fixtures/stop-after-test.ts';
import { OAUTH2_PROXY } from '../run/needs.ts';
import { environmentOf, readCompose } from './front-services.ts';

const FRONT = fileURLToPath(new URL('../../deploy/front/', import.meta.url));
const COMMAND = fileURLToPath(new URL('../../bin/mrtr-gateway.js', import.meta.url));
const TEMPORARY = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];
const QUESTION = 'trigger-elicitation-request';

/** What oauth2-proxy does with bearer tokens: GET /oauth2/auth gets 202 and the name of the caller, or 401. */
async function loginService({ issuer, jwksUrl }: AuthorizationServer): Promise<number> {
  const keys = createRemoteJWKSet(jwksUrl);
  const service = createServer((request, response) => {
    const token = /^Bearer (.+)$/.exec(request.headers.authorization ?? '')?.[1] ?? '';
    const verified =
      request.url === '/oauth2/auth'
        ? jwtVerify(token, keys, { issuer, audience: RESOURCE })
        : Promise.reject(new Error('not found'));
    verified.then(
      ({ payload }) => response.writeHead(202, { 'x-auth-request-user': payload.sub }).end(),
      () => response.writeHead(401).end(),
    );
  });
  service.listen(0, '127.0.0.1');
  await once(service, 'listening');
  stopAfterTest(async () => service.close());
  return (service.address() as AddressInfo).port;
}

/** oauth2-proxy with the environment of compose.yaml. */
async function oauth2Proxy({ issuer }: AuthorizationServer): Promise<number> {
  const given: Readonly<Record<string, string>> = {
    OIDC_ISSUER_URL: issuer,
    OIDC_CLIENT_ID: 'front',
    OIDC_CLIENT_SECRET: 'a secret',
    COOKIE_SECRET: randomBytes(32).toString('base64url'),
    PUBLIC_URL: RESOURCE,
  };
  const env = environmentOf(readCompose().services['login']!, given);
  const port = await freePort();
  const proxy = await startServer(OAUTH2_PROXY, [], {
    ready: /HTTP: listening on|OAuthProxy configured/i,
    port,
    env: { ...env, OAUTH2_PROXY_HTTP_ADDRESS: `127.0.0.1:${port}` },
  });
  stopAfterTest(() => proxy.stop());
  return port;
}

type Login = (issuer: AuthorizationServer) => Promise<number>;

/** nginx with deploy/front/nginx.conf, but for addresses and folders. @returns its origin */
async function startFront(folder: string, ports: { gateway: number; login: number }) {
  const port = await freePort();
  const written = await readFile(join(FRONT, 'nginx.conf'), 'utf8');
  const changes: readonly (readonly [string, string])[] = [
    ['worker_processes auto;', `worker_processes 1; daemon off; pid ${folder}/pid; user root;`],
    [
      'http {',
      `http {\n${TEMPORARY.map((name) => `${name}_temp_path ${folder}/${name};`).join('\n')}`,
    ],

    ['listen 443 ssl default_server;', `listen 127.0.0.1:${port} ssl default_server;`],
    ['listen 443 ssl;', `listen 127.0.0.1:${port} ssl;`],
    ['https://localhost:8443;', `https://localhost:${port};`],

    ['server gateway:8080;', `server 127.0.0.1:${ports.gateway};`],
    ['server login:4180;', `server 127.0.0.1:${ports.login};`],
    ['/etc/nginx/certificates/front.pem', `${folder}/front.pem`],
    ['/etc/nginx/certificates/front.key', `${folder}/front.key`],
  ];
  for (const [part] of changes) expect(written.split(part)).toHaveLength(2);
  const text = changes.reduce((conf, [part, other]) => conf.replace(part, () => other), written);
  const file = join(folder, 'nginx.conf');
  await writeFile(file, text);
  const nginx = spawn('nginx', ['-p', folder, '-c', file, '-e', 'stderr'], { stdio: 'ignore' });
  stopAfterTest(async () => {
    if (nginx.exitCode !== null) return;
    const gone = once(nginx, 'exit');
    nginx.kill('SIGTERM');
    await gone;
  });
  return `https://localhost:${port}`;
}

// The wire is not typed.
// eslint-disable-next-line @typescript-eslint/no-explicit-any
const wire = (response: Response): Promise<any> => response.json();

async function stack(startLogin: Login, env: Record<string, string> = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'mrtr-front-'));
  stopAfterTest(() => rm(folder, { recursive: true, force: true }));
  execFileSync(join(FRONT, 'certificate.sh'), ['localhost', folder]);
  const issuer = await AuthorizationServer.start();
  const legacy = await startEverything('streamableHttp');
  stopAfterTest(() => legacy.stop());
  const port = await freePort();
  const flags = ['--listen', `127.0.0.1:${port}`, '--admin', 'off'];
  const gateway = await startServer(
    process.execPath,
    [COMMAND, '--config', join(FRONT, 'gateway.yaml'), ...flags],
    {
      ready: /gateway\.listening/,
      port,
      env: {
        SEAL_KEY: randomBytes(32).toString('base64url'),
        UPSTREAM_URL: `${legacy.origin}/mcp`,
        FRONT_ADDRESS: '127.0.0.1',
        ...env,
      },
    },
  );
  stopAfterTest(() => gateway.stop());
  const origin = await startFront(folder, { gateway: port, login: await startLogin(issuer) });
  const dispatcher = new Agent({ connect: { ca: await readFile(join(folder, 'front.pem')) } });
  stopAfterTest(() => dispatcher.close());
  const overTls = (url: string | URL | Request, init: RequestInit = {}) =>
    fetchOver(url as string, { ...init, dispatcher } as never) as unknown as Promise<Response>;
  await expect
    .poll(() => overTls(origin).then(({ status }) => status, String), { timeout: 30_000 })
    .toBe(404);
  /** A modern request, as bytes on the wire. */
  const send = async (params: object, headers: object) => {
    const response = await overTls(`${origin}/mcp`, {
      method: 'POST',
      headers: { ...modernHeaders('tools/call', params), ...headers },
      body: JSON.stringify(modernBody('tools/call', params)),
    });
    return {
      status: response.status,
      headers: response.headers,
      body: await wire(response),
    };
  };
  /** Reads a path over the connection of the public name, and names another host. */
  const asHost = async (host: string, path: string) => {
    const ca = await readFile(join(folder, 'front.pem'));
    const request = get(new URL(path, origin), { ca, servername: 'localhost', headers: { host } });
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    return { status: response.statusCode, said: await textOf(response) };
  };
  const as = async (client: string) => ({ authorization: `Bearer ${await issuer.token(client)}` });
  return { origin, gateway, overTls, asHost, send, as };
}

const LOGINS: readonly (readonly [string, Login, readonly string[]])[] = [
  ['a service like oauth2-proxy', loginService, []],
  ['oauth2-proxy', oauth2Proxy, ['oauth2-proxy']],
];

describe.each(LOGINS)('deploy/front with %s', (_name, login, tags) => {
  const tagged = { tags: ['deploy', 'nginx', ...tags], timeout: 120_000 };

  test('lets nobody in without a login, whatever name they bring', tagged, async () => {
    const { origin, overTls, asHost, send, gateway } = await stack(login);
    const params = { name: 'echo', arguments: { message: 'hello' } };
    const spoofed = [
      {},
      { 'x-auth-request-user': 'ada' },
      { authorization: 'Bearer forged', 'x-auth-request-user': 'ada' },
      { cookie: '_oauth2_proxy=forged', x_auth_request_user: 'ada' },
    ];
    for (const headers of spoofed) {
      const refused = await send(params, headers);
      expect(refused.status).toBe(401);
      expect(refused.headers.get('www-authenticate')).toBe(
        `Bearer resource_metadata="${origin}/.well-known/oauth-protected-resource/mcp"`,
      );
    }
    const metadata = await overTls(`${origin}/.well-known/oauth-protected-resource/mcp`);
    expect(await metadata.json()).toMatchObject({ resource: `${origin}/mcp` });
    for (const path of ['/metrics', '/readyz', '/relay', '/oauth2/auth', '/login', '/mcp/']) {
      expect((await overTls(`${origin}${path}`)).status, path).toBe(404);
    }
    for (const host of ['evil.example', `evil.example:${new URL(origin).port}`]) {
      const { status, said } = await asHost(host, '/.well-known/oauth-protected-resource/mcp');
      expect(said).not.toContain('evil');
      expect([host, status]).toEqual([host, 421]);
    }
    // Nothing of this reached the gateway.
    expect(gateway.output()).not.toMatch(/identity\.refused|call\.started/);
  });

  test('a user who has logged in is asked, and nobody else can answer', tagged, async () => {
    const { origin, overTls, send, as, gateway } = await stack(login);
    const asked: string[] = [];
    const client = new Client(
      { name: 'official', version: '1.0.0' },
      {
        versionNegotiation: { mode: { pin: '2026-07-28' } },
        capabilities: { elicitation: { form: {} } },
      },
    );
    client.setRequestHandler('elicitation/create', async ({ params }) => {
      asked.push(params.message);
      return { action: 'accept', content: { name: 'Ada Lovelace' } };
    });
    const requestInit = { headers: await as('ada') };
    const transport = new StreamableHTTPClientTransport(new URL(`${origin}/mcp`), {
      requestInit,
      fetch: overTls,
    });
    await client.connect(transport);
    const result = await client.callTool({ name: QUESTION });
    expect(asked).toHaveLength(1);
    expect(JSON.stringify(result)).toContain('Ada Lovelace');
    await client.close();

    const params = { name: QUESTION, arguments: {} };
    const parked = await send(params, await as('ada'));
    const { requestState, inputRequests } = parked.body.result;
    const answer = { action: 'accept', content: { name: 'Mallory' } };
    const inputResponses = Object.fromEntries(
      Object.keys(inputRequests).map((key) => [key, answer]),
    );
    const retry = { ...params, requestState, inputResponses };
    // Bob has logged in, and says that he is ada.
    const stolen = await send(retry, { ...(await as('bob')), 'x-auth-request-user': 'ada' });
    expect(stolen.body.error).toMatchObject({ data: { reason: 'invalid_request_state' } });
    expect(gateway.output()).toMatch(/pointer\.refused.*"reason":"principal"/);
    const own = await send(retry, await as('ada'));
    expect(JSON.stringify(own.body.result)).toContain('Mallory');
  });

  test('a caller has a limit of its own, told as the gateway does', tagged, async () => {
    const { send, as } = await stack(login, { RATE_PER_PRINCIPAL: '3/10m' });
    const params = { name: 'echo', arguments: { message: 'hello' } };
    const [ada, bob] = [await as('ada'), await as('bob')];
    for (let call = 0; call < 3; call += 1)
      expect((await send(params, ada)).body.result).toBeDefined();
    // Another token is the same caller.
    const { status, body } = await send(params, await as('ada'));
    expect([status, body.error.code, body.error.data.reason]).toEqual([
      200,
      -32603,
      'rate_limited',
    ]);
    expect(body.error.data.retryAfterMs).toBeGreaterThan(0);
    expect((await send(params, bob)).body.result).toBeDefined();
  });
});

describe('deploy/front/gateway.yaml', { tags: ['deploy'] }, () => {
  test('trusts the address that compose.yaml gives to nginx', async () => {
    const { config } = loadConfig(join(FRONT, 'gateway.yaml'), {
      SEAL_KEY: randomBytes(32).toString('base64url'),
      UPSTREAM_URL: 'http://legacy:3001/mcp',
    });
    const [trusted = ''] = config.edge.trustedProxies;
    expect(await readFile(join(FRONT, 'compose.yaml'), 'utf8')).toContain(
      `ipv4_address: ${trusted}`,
    );
  });
});
