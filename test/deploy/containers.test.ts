/** What is in deploy/ really started: the image, the topology of docker-compose.yml, and pods of the chart. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { accept, callTool, type Exchanged } from '../fixtures/clients/modern-client.ts';
import { stateOf, whileRetryable } from '../fixtures/gateways/replica-testbed.ts';
import { freePort } from '../fixtures/processes.ts';
import { stopAfterTest } from '../fixtures/stop-after-test.ts';
import { textOf } from '../unit/docs/markdown-tables.ts';
import { render } from './chart.ts';
import {
  BUILD_MS,
  buildImages,
  logOf,
  Network,
  podman,
  podmanCompose,
  podmanLater,
  STOP_MS,
  type Pod,
} from './podman.ts';

const START_MS = 90_000;
const SEAL_KEY = Buffer.alloc(32, 7).toString('base64url');
const IMAGES = ['--set', 'image.repository=localhost/mrtr-gateway,image.tag=test'];
const SEALED = ['--set', 'seal.existingSecret=keys', '--set', 'config.drain.delay=0s'];
const BESIDE = ['--set', 'server.enabled=true,server.image=localhost/legacy:1'];
const LEGACY = ['--env', 'HOST=0.0.0.0', '--env', 'PORT=3001'];
const SECRETS = { keys: { key: SEAL_KEY } };

describe('in containers', { tags: ['deploy', 'podman'], timeout: 5 * 60_000 }, () => {
  beforeAll(buildImages, BUILD_MS);

  test('the image listens on :8080, with a read-only file system and no rights', async () => {
    const network = startNetwork();
    const legacy = network.start('localhost/legacy:1', LEGACY);
    const confined = ['--read-only', '--cap-drop', 'ALL', '--security-opt', 'no-new-privileges'];
    const flags = [...confined, '--memory', '256m'];
    const upstream = ['--upstream', `http://${legacy.ip}:3001/mcp`];
    const { ip, name } = network.start('localhost/mrtr-gateway:test', flags, ...upstream);
    const url = `http://${ip}:8080/mcp`;
    await until(() => serves(url));
    expect(said(await answer(url, await ask(url)))).toContain('Ada');
    expect(isHealthy(name)).toBe(true);
  });

  test('docker-compose.yml serves a parked call on either gateway', async () => {
    const port = await freePort();
    const folder = mkdtempSync(join(tmpdir(), 'mrtr-gateway-compose-'));
    const file = join(folder, 'docker-compose.yml');
    const topology = textOf('docker-compose.yml')
      .replace('127.0.0.1:8080:8080', `127.0.0.1:${port}:8080`)
      .replace('./deploy/compose/nginx.conf', join(folder, 'nginx.conf'));
    writeFileSync(file, topology);
    // podman has no DNS server at this address, and Debian's nginx knows no "resolve".
    const front = textOf('deploy/compose/nginx.conf')
      .replace(/^ *resolver .*\n/m, '')
      .replaceAll(' resolve;', ';');
    writeFileSync(join(folder, 'nginx.conf'), front);
    writeFileSync(join(folder, '.env'), `SEAL_KEY=${SEAL_KEY}\nREDIS_PASSWORD=of-the-test\n`);
    const project = `mrtr-compose-${process.pid}`;
    const compose = ['--file', file, '--project-name', project];
    stopAfterTest(async () => {
      podmanCompose(...compose, 'down', '--timeout', '1');
      rmSync(folder, { recursive: true });
    }, STOP_MS);
    podmanCompose(...compose, 'up', '--detach', '--no-build');
    const gateways = ['gateway-1', 'gateway-2'].map((name) => `${project}_${name}_1`);
    for (const name of gateways) await until(async () => isHealthy(name));
    const url = `http://127.0.0.1:${port}/mcp`;
    await until(() => serves(url));
    // An odd number: the front takes turns, so each answer reaches the gateway that has not asked.
    const asked = [await ask(url), await ask(url), await ask(url)];
    for (const one of asked) expect(said(await answer(url, one))).toContain('Ada');
    const relayed = gateways.flatMap(recoveriesOf).filter((recoveredBy) => recoveredBy === 'relay');
    expect(relayed).toHaveLength(3);
  });

  test('two pods of the chart beside their servers: a call that is parked in one is answered through the other', async () => {
    const network = startNetwork();
    const rendered = render(...IMAGES, ...SEALED, ...BESIDE);
    const [one, other] = [network.startPod(rendered, SECRETS), network.startPod(rendered, SECRETS)];
    await Promise.all([ready(one.ip), ready(other.ip)]);
    // The server listens on loopback: nobody gets past the gateway.
    await expect(fetch(`http://${one.ip}:3001/mcp`)).rejects.toThrow('fetch failed');
    const asked = await ask(one.url);
    expect(said(await answer(other.url, asked))).toContain('Ada');
    expect(recoveriesOf(other.container('gateway'))).toEqual(['relay']);
  });

  test('a pod that is replaced keeps its parked call, and its server ends after its gateway', async () => {
    const network = startNetwork();
    const rendered = render(...IMAGES, ...SEALED, ...BESIDE);
    const [old, fresh] = [network.startPod(rendered, SECRETS), network.startPod(rendered, SECRETS)];
    await Promise.all([ready(old.ip), ready(fresh.ip)]);
    const asked = await ask(old.url);
    // As the kubelet ends a pod: first the gateway, and the native sidecar when it has ended.
    const stopped = podmanLater('stop', '--time', '555', old.container('gateway'));
    await until(async () => (await fetch(`http://${old.ip}:9464/readyz`)).status === 503);
    expect(stateOfContainer(old, 'server')).toBe('running 0');
    expect(said(await answer(fresh.url, asked))).toContain('Ada');
    await stopped;
    expect(stateOfContainer(old, 'gateway')).toBe('exited 0');
  });

  test('two pods of the chart in front of a server: a call that is parked in one is answered through the other', async () => {
    const network = startNetwork();
    const legacy = network.start('localhost/legacy:1', LEGACY);
    const open = ['redis-server', '--save', ''];
    const redis = network.start('docker.io/library/redis:7-alpine', [], ...open);
    const upstream = ['--set', `upstream.url=http://${legacy.ip}:3001/mcp`];
    const rendered = render(
      ...IMAGES,
      ...SEALED,
      ...upstream,
      '--set',
      'redis.existingSecret=store',
    );
    const secrets = { ...SECRETS, store: { 'redis-url': `redis://${redis.ip}:6379` } };
    const [one, other] = [network.startPod(rendered, secrets), network.startPod(rendered, secrets)];
    await Promise.all([ready(one.ip), ready(other.ip)]);
    const asked = await ask(one.url);
    expect(said(await answer(other.url, asked))).toContain('Ada');
    expect(recoveriesOf(other.container('gateway'))).toEqual(['relay']);
  });
});

function startNetwork(): Network {
  const network = new Network();
  stopAfterTest(async () => network.remove(), STOP_MS);
  return network;
}

const said = ({ response }: Exchanged): string => JSON.stringify(response.result?.content);
/** Runs the health check of the Dockerfile. @throws Error if it fails */
function isHealthy(container: string): true {
  podman('healthcheck', 'run', container);
  return true;
}

async function serves(url: string): Promise<boolean> {
  const { response } = await callTool(url, 'echo', { arguments: { message: 'hi' } });
  return response.result !== undefined;
}

/** Calls the tool that asks. With other capabilities the server would ask for roots as well. */
function ask(url: string, retry: object = {}): Promise<Exchanged> {
  const capabilities = { elicitation: { form: {} } };
  return callTool(url, 'trigger-elicitation-request', retry, { capabilities });
}

function answer(url: string, asked: Exchanged): Promise<Exchanged> {
  expect(asked.response.error).toBeUndefined();
  const keys = Object.keys(asked.response.result.inputRequests);
  const answers = keys.map((key) => [key, accept({ name: 'Ada' })]);
  const retry = { requestState: stateOf(asked), inputResponses: Object.fromEntries(answers) };
  return whileRetryable(() => ask(url, retry));
}

/** How the gateway in this container served retries. */
function recoveriesOf(container: string): string[] {
  return [...logOf(container).matchAll(/"recoveredBy":"(\w+)"/g)].map(([, recoveredBy]) =>
    String(recoveredBy),
  );
}

function stateOfContainer(pod: Pod, name: string): string {
  return podman(
    'inspect',
    '--format',
    '{{.State.Status}} {{.State.ExitCode}}',
    pod.container(name),
  );
}

const ready = (ip: string): Promise<void> =>
  until(async () => (await fetch(`http://${ip}:9464/readyz`)).status === 200);

/** Asks until the answer is yes; what cannot be reached yet says no. @throws the last failure after a bound */
async function until(isSo: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + START_MS;
  let problem: unknown = new Error('never true');
  while (performance.now() < deadline) {
    if (await isSo().catch((error: unknown) => ((problem = error), false))) return;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  throw problem;
}
