/** deploy/front/compose.yaml, started: nginx, oauth2-proxy, the gateway and the reference server, in containers. */
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Agent, fetch as fetchOver } from 'undici';
import { beforeAll, describe, expect, test } from 'vitest';
import { modernBody, modernHeaders } from '../fixtures/clients/modern-client.ts';
import { freePort } from '../fixtures/processes.ts';
import { AuthorizationServer } from '../fixtures/servers/authorization-server.ts';
import { stopAfterTest } from '../fixtures/stop-after-test.ts';
import { OAUTH2_PROXY } from '../run/needs.ts';
import { pathOf } from '../unit/docs/markdown-tables.ts';
import { environmentOf, readCompose } from './front-services.ts';
import {
  BUILD_MS,
  buildImages,
  buildLogin,
  logOf,
  podman,
  removeNamed,
  STOP_MS,
} from './podman.ts';

const RESOURCE = 'https://localhost:8443/mcp';
const SOON = { timeout: 120_000, interval: 500 };

/**
 * Starts the services of compose.yaml as it says. Debian's podman-compose knows no addresses in networks.
 * @returns the port of the front, and the authorization server
 */
async function startServices(folder: string) {
  const { services, networks } = readCompose();
  const prefix = `mrtr-front-${process.pid}`;
  stopAfterTest(async () => removeNamed(prefix), STOP_MS);
  const { internal, ipam } = networks.inside;
  expect(internal).toBe(true);
  const [{ subnet, ip_range: range }] = ipam.config;
  const addresses = ['--internal', '--subnet', subnet, '--ip-range', range];
  podman('network', 'create', ...addresses, `${prefix}-inside`);
  podman('network', 'create', `${prefix}-outside`);
  const gatewayOf = ['network', 'inspect', '--format', '{{(index .Subnets 0).Gateway}}'];
  const host = podman(...gatewayOf, `${prefix}-outside`);
  const port = await freePort();
  const issuer = `http://${host}:${await freePort()}`;
  const env = {
    SEAL_KEY: randomBytes(32).toString('base64url'),
    COOKIE_SECRET: randomBytes(32).toString('base64url'),
    ...{ OIDC_ISSUER_URL: issuer, OIDC_CLIENT_ID: 'front', OIDC_CLIENT_SECRET: 'a secret' },
  };
  const start = (name: string) => {
    const service = services[name]!;
    const joined = Array.isArray(service.networks)
      ? service.networks.map((network) => [network, null] as const)
      : Object.entries(service.networks as Record<string, { ipv4_address: string } | null>);
    const flags = [
      ...joined.map(([network, at]) => {
        const address = at === null ? '' : `,ip=${at.ipv4_address}`;
        return `--network=${prefix}-${network}:alias=${name}${address}`;
      }),
      ...Object.entries(environmentOf(service, env)).map(
        ([variable, value]) => `--env=${variable}=${value}`,
      ),
      ...(service.ports ?? []).map((one) => `--publish=${one.replace(':8443:', `:${port}:`)}`),
      ...(service.volumes ?? []).map((one) => `--volume=${one.replace(/^\./, () => folder)}`),
      ...(service.cap_drop ?? []).map((one) => `--cap-drop=${one}`),
      ...(service.security_opt ?? []).map((one) => `--security-opt=${one}`),
      ...(service.user === undefined ? [] : [`--user=${service.user}`]),
      ...(service.read_only === true ? ['--read-only'] : []),
    ];
    const image =
      service.image === 'mrtr-gateway' ? 'localhost/mrtr-gateway:latest' : service.image;
    const named = ['--detach', '--pull=never', `--name=${prefix}-${name}`];
    podman('run', ...named, ...flags, image, ...(service.command ?? []));
  };
  start('legacy');
  // The address of the host in this network is there with the first container.
  const server = await AuthorizationServer.start(Number(new URL(issuer).port), host);
  for (const name of ['login', 'gateway', 'front']) start(name);
  return { port, server, gateway: `${prefix}-gateway` };
}

async function stack() {
  const folder = mkdtempSync(join(tmpdir(), 'mrtr-front-'));
  stopAfterTest(async () => rmSync(folder, { recursive: true }));
  for (const name of ['nginx.conf', 'gateway.yaml', 'certificate.sh']) {
    cpSync(pathOf(`deploy/front/${name}`), join(folder, name));
  }
  mkdirSync(join(folder, 'certificates'));
  execFileSync(join(folder, 'certificate.sh'), ['localhost', join(folder, 'certificates')]);
  const { port, server, gateway } = await startServices(folder);
  const dispatcher = new Agent({
    connect: { ca: readFileSync(join(folder, 'certificates', 'front.pem')) },
  });
  stopAfterTest(() => dispatcher.close());
  const call = async (headers: object, name = 'echo') => {
    const params = { name, arguments: { message: 'hello' } };
    const response = await fetchOver(`https://localhost:${port}/mcp`, {
      method: 'POST',
      headers: { ...modernHeaders('tools/call', params), ...headers },
      body: JSON.stringify(
        modernBody('tools/call', params, { capabilities: { elicitation: { form: {} } } }),
      ),
      dispatcher,
    });
    // The wire is not typed.
    // eslint-disable-next-line @typescript-eslint/no-explicit-any
    return { status: response.status, body: (await response.json()) as any };
  };
  return { call, server, gateway };
}

describe('deploy/front/compose.yaml', { tags: ['deploy', 'podman', 'oauth2-proxy'] }, () => {
  beforeAll(() => {
    buildImages();
    buildLogin('quay.io/oauth2-proxy/oauth2-proxy:v7.13.0-alpine', OAUTH2_PROXY);
  }, BUILD_MS);

  test('serves callers who have logged in, by their names', { timeout: 5 * 60_000 }, async () => {
    const { call, server, gateway } = await stack();
    const authorization = `Bearer ${await server.token('ada', { resource: RESOURCE })}`;
    const served = () =>
      call({ authorization }).then(({ status, body }) => [status, !body.error], String);
    await expect.poll(served, SOON).toEqual([200, true]);
    const refused = await call({ authorization: 'Bearer forged', 'x-auth-request-user': 'ada' });
    expect(refused.status).toBe(401);
    const asked = await call({ authorization }, 'trigger-elicitation-request');
    expect(asked.body.result.resultType).toBe('input_required');
    expect(logOf(gateway)).toContain('call.parked');
  });
});
