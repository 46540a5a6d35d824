import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import type { Config } from '../../../src/config/schema.ts';
import { KEEP_ALIVE_MS } from '../../../src/edge/response-writer.ts';
import { loadConfig } from '../../../src/config/load/load.ts';
import { check } from '../../../src/cli/configured.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../../src/protocol/json.ts';
import { pathOf, textOf } from './markdown-tables.ts';

const folder = mkdtempSync(join(tmpdir(), 'mrtr-gateway-deploy-'));
afterAll(() => rmSync(folder, { recursive: true }));

const KEY = 'A'.repeat(43);
/** After drain.delay, drain.parked and drain.timeout: what was ended tells its server and its client, and sessions close. */
const LEAVING_MS = 10_000;

describe('docker-compose.yml', () => {
  const compose = read('docker-compose.yml');
  const services = member(compose, 'services');
  const gateways = ['gateway-1', 'gateway-2'];

  test.each(gateways)('starts %s with a configuration that is good', (name) => {
    expect(member(services, name)['command']).toEqual(['--config', 'config/compose.yaml']);
    expect(check(pathOf('config/compose.yaml'), environmentOf(name)).text).toMatch(
      /: ok \(1 route(?:, \d warnings?)?\)$/,
    );
  });

  test.each(gateways)('lets %s be reached by the other under its own name', (name) => {
    const { config } = loadConfig(pathOf('config/compose.yaml'), environmentOf(name));
    expect(member(services, name)['hostname']).toBe(name);
    expect(config.relay?.advertise?.origin).toBe(`http://${name}:${config.relay?.listen?.port}`);
  });

  test.each(gateways)('gives %s the time to drain', (name) => {
    const { config } = loadConfig(pathOf('config/compose.yaml'), environmentOf(name));
    const graceSeconds = Number.parseInt(String(member(services, name)['stop_grace_period']), 10);
    expect(graceSeconds * 1000).toBeGreaterThanOrEqual(drainMs(config) + LEAVING_MS);
  });

  test('does not start without a key of the operator', () => {
    for (const name of gateways) {
      expect(member(services, name, 'environment')['SEAL_KEY']).toMatch(/^\$\{SEAL_KEY:\?/);
    }
  });

  // Nobody trusts it: what replicas share is not for it (docs/threats.md).
  test('lets the server behind the gateways reach neither Redis nor the admin listener', () => {
    const networksOf = (name: string) => list(member(services, name)['networks']);
    expect(networksOf('legacy').filter((name) => networksOf('redis').includes(name))).toEqual([]);
    expect(member(compose, 'networks', 'store')).toEqual({ internal: true });
    for (const name of gateways) {
      const { config } = loadConfig(pathOf('config/compose.yaml'), environmentOf(name));
      expect(config.admin?.host).toBe('127.0.0.1');
      expect(config.redis?.url.password).toBe('secret');
    }
    expect(list(member(services, 'redis')['command']).slice(-2)).toEqual([
      '--requirepass',
      '${REDIS_PASSWORD}',
    ]);
  });

  test('opens the front to this machine, and nothing else', () => {
    const open = Object.entries(services).filter(([, service]) => 'ports' in object(service));
    expect(open.map(([name, service]) => [name, object(service)['ports']])).toEqual([
      ['front', ['127.0.0.1:8080:8080']],
    ]);
  });

  test('says which version of each image it takes', () => {
    const images = Object.values(services).map((service) => String(object(service)['image']));
    expect(images.filter((image) => !/:\d/.test(image))).toEqual(['mrtr-gateway', 'mrtr-gateway']);
  });

  function environmentOf(name: string): Record<string, string> {
    const given = member(services, name, 'environment');
    return Object.fromEntries(
      Object.entries(given).map(([variable, value]) => [
        variable,
        variable === 'SEAL_KEY' ? KEY : composed(String(value)),
      ]),
    );
  }
});

describe('deploy/compose/nginx.conf', () => {
  const conf = textOf('deploy/compose/nginx.conf');
  const { config } = loadConfig(pathOf('config/compose.yaml'), {
    SEAL_KEY: KEY,
    RELAY_URL: 'http://gateway-1:8081',
  });

  test('sends to both replicas, at the port on which they listen', () => {
    // With "resolve" a replica that is created again is found under its new address.
    const servers = [...conf.matchAll(/^\s+server ([a-z0-9-]+):(\d+) resolve;/gm)];
    expect(servers.map(([, name, port]) => [name, Number(port)])).toEqual([
      ['gateway-1', config.listen.port],
      ['gateway-2', config.listen.port],
    ]);
  });

  test('waits for longer than a response may be silent, takes bodies as large, and repeats no call', () => {
    const [, seconds] = /proxy_read_timeout (\d+)s;/.exec(conf) ?? [];
    expect(Number(seconds) * 1000).toBeGreaterThan(KEEP_ALIVE_MS);
    const [, mebibytes] = /client_max_body_size (\d+)m;/.exec(conf) ?? [];
    expect(Number(mebibytes) * 1024 * 1024).toBe(config.limits.maxBodyBytes);
    expect(conf).toContain('proxy_next_upstream error timeout;');
    expect(conf).toContain('proxy_buffering off;');
  });
});

describe.each(['deploy/front/nginx.conf', 'deploy/compose/nginx.conf'])('%s', (name) => {
  test('refuses every name but those of clients, and repeats none', () => {
    const conf = textOf(name);
    expect(conf).toMatch(
      /listen \d+(?: ssl)? default_server;\n(?: *ssl_reject_handshake on;\n)? *return 421;/,
    );
    expect(conf).toMatch(/^ *server_name localhost/m);
    expect(conf).not.toMatch(/https?:\/\/\$(?:http_)?host/);
  });
});

describe('.github/workflows', () => {
  test('the workflows name actions by the digest of their commit', () => {
    const folders = ['.github/workflows', '.github/actions/setup'];
    const files = folders.flatMap((folder) =>
      readdirSync(pathOf(folder)).map((file) => `${folder}/${file}`),
    );
    const used = files.flatMap((file) => [...textOf(file).matchAll(/uses: (\S+)/g)]);
    const foreign = used
      .map(([, action = '']) => action)
      .filter((action) => !action.startsWith('./'));
    expect(foreign.length).toBeGreaterThan(0);
    for (const action of foreign) expect(action).toMatch(/^[\w-]+(?:\/[\w-]+)+@[0-9a-f]{40}$/);
  });
});

describe('deploy/front/nginx.conf', () => {
  test('finds services that are created again: it looks up their names once, so they keep their addresses', () => {
    const servers = [...textOf('deploy/front/nginx.conf').matchAll(/^\s+server ([a-z]+):\d+;/gm)];
    expect(servers.map(([, name]) => name)).toEqual(['gateway', 'login']);
    const services = member(read('deploy/front/compose.yaml'), 'services');
    const addresses = servers.map(
      ([, name = '']) => member(services, name, 'networks', 'inside')['ipv4_address'],
    );
    expect(new Set(addresses)).toEqual(new Set(['10.87.0.4', '10.87.0.3']));
  });
});

const KUBERNETES = ['deploy/kubernetes/sidecar.yaml', 'deploy/kubernetes/replicas.yaml'];
/** What the Helm chart renders; test/deploy compares it with the chart. */
const RENDERED = readdirSync(pathOf('deploy/helm/golden')).map(
  (file) => `deploy/helm/golden/${file}`,
);

describe.each([...KUBERNETES, ...RENDERED])('%s', (name) => {
  const objects = objectsOf(name);
  const ofKind = (kind: string) => {
    const found = objects.find((candidate) => candidate['kind'] === kind);
    if (found === undefined) throw new Error(`no ${kind} in ${name}`);
    return found;
  };
  const pod = member(ofKind('Deployment'), 'spec', 'template', 'spec');
  const gateway =
    list(pod['containers'])
      .map(object)
      .find((one) => one['name'] === 'gateway') ?? {};

  test('holds a configuration of which "mrtr-gateway check" says that it is good', () => {
    expect(check(writtenConfig(), environment()).text).toMatch(
      /: ok \(\d routes?(?:, \d warnings?)?\)$/,
    );
  });

  test('gives the pod the time to drain', () => {
    const graceMs = Number(pod['terminationGracePeriodSeconds']) * 1000;
    expect(graceMs).toBeGreaterThanOrEqual(drainMs(loaded()) + LEAVING_MS);
  });

  test('names every port on which the configuration listens, and probes the one of the operator', () => {
    const { listen, admin, relay } = loaded();
    const wanted = [listen.port, relay?.listen?.port, admin?.port].filter(
      (port) => port !== undefined,
    );
    const ports = list(gateway['ports']).map(object);
    expect(ports.map((port) => port['containerPort'])).toEqual(wanted);
    for (const [probe, path] of PROBES) {
      expect(member(gateway, probe, 'httpGet')).toEqual({ path, port: 'admin' });
    }
  });

  // One worker that hangs must not make the pod not ready. The primary waits a second for it (`STATUS_TIMEOUT_MS`).
  test.each(['livenessProbe', 'readinessProbe'])(
    'gives the %s longer than a worker has',
    (probe) => {
      expect(Number(member(gateway, probe)['timeoutSeconds'])).toBeGreaterThan(1);
    },
  );

  test('selects its own pods everywhere', () => {
    const selector = member(ofKind('Deployment'), 'spec', 'selector', 'matchLabels');
    expect(member(ofKind('Deployment'), 'spec', 'template', 'metadata', 'labels')).toMatchObject(
      selector,
    );
    expect(member(ofKind('Service'), 'spec', 'selector')).toEqual(selector);
    for (const one of objects) {
      const { selector: selects, podSelector } = object(one['spec'] ?? {});
      const labels = object(selects ?? podSelector ?? {})['matchLabels'];
      if (labels !== undefined) expect(labels).toEqual(selector);
    }
  });

  test('has no probe that cannot reach a server on loopback, and stops it after the gateway', () => {
    for (const server of list(pod['initContainers'] ?? []).map(object)) {
      const probes = ['startupProbe', 'livenessProbe', 'readinessProbe'].map((key) => server[key]);
      const ways = probes.flatMap((probe) => Object.keys(object(probe ?? {})));
      expect(ways).not.toContain('tcpSocket');
      expect(ways).not.toContain('httpGet');
      expect(server['ports']).toBeUndefined();
      expect(server['restartPolicy']).toBe('Always');
    }
  });

  test('runs without rights, on a file system that cannot be written', () => {
    expect(gateway['securityContext']).toEqual({
      runAsUser: 1000,
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    });
    expect(member(pod, 'securityContext')['runAsNonRoot']).toBe(true);
  });

  test('mounts every file that the configuration refers to', () => {
    const text = String(member(ofKind('ConfigMap'), 'data')['gateway.yaml']);
    const referred = [...text.matchAll(/file:(\S+)/g)].map(([, path]) => String(path));
    const mounts = list(gateway['volumeMounts']).map(object);
    for (const path of referred) {
      const mount = mounts.find(({ mountPath }) => mountPath === dirname(path));
      const volume = list(pod['volumes'])
        .map(object)
        .find((one) => one['name'] === mount?.['name']);
      const items = object(volume?.['secret'])['items'];
      const paths = list(items ?? [{ path: basename(path) }]).map((item) => object(item)['path']);
      expect(paths).toContain(basename(path));
    }
  });

  test('replaces a pod only when the new one is ready', () => {
    expect(member(ofKind('Deployment'), 'spec', 'strategy', 'rollingUpdate')).toEqual({
      maxSurge: 1,
      maxUnavailable: 0,
    });
  });

  /** The configuration as the pod has it, with its secrets in a folder of ours. */
  function writtenConfig(): string {
    const file = join(folder, basename(name));
    const text = String(member(ofKind('ConfigMap'), 'data')['gateway.yaml']);
    writeFileSync(file, text.replaceAll(/file:\/run\/secrets\/[a-z-]+/g, `file:${folder}`));
    for (const [secret, value] of Object.entries(SECRETS))
      writeFileSync(join(folder, secret), value);
    return file;
  }

  function environment(): Record<string, string> {
    const names = list(gateway['env']).map((variable) => String(object(variable)['name']));
    return Object.fromEntries(names.map((variable) => [variable, VALUES[variable] ?? '']));
  }

  function loaded(): Config {
    return loadConfig(writtenConfig(), environment()).config;
  }
});

test.each(KUBERNETES)('%s opens each port to those who need it, and to nobody else', (name) => {
  const policy = objectsOf(name).find(({ kind }) => kind === 'NetworkPolicy');
  const rules = list(member(object(policy), 'spec')['ingress']).map(object);
  const byPort = rules.map((rule) => [
    list(rule['ports']).map((port) => object(port)['port']),
    list(rule['from']).map((peer) => Object.keys(object(peer))),
  ]);
  expect(byPort).toEqual([
    [['mcp'], [['namespaceSelector']]],
    [['relay'], [['podSelector']]],
    [['admin'], [['namespaceSelector']]],
  ]);
});

const PROBES = [
  ['startupProbe', '/healthz'],
  ['livenessProbe', '/healthz'],
  ['readinessProbe', '/readyz'],
] as const;

const VALUES: Readonly<Record<string, string>> = {
  POD_IP: '10.0.0.7',
  SEAL_KEY_ID: 'key-1',
  SEARCH_URL: 'http://search:3000/mcp',
};

const SECRETS: Readonly<Record<string, string>> = {
  key: `${KEY}\n`,
  'key-2026-11': KEY,
  'key-2026-12': 'B'.repeat(42) + 'A',
  'redis-url': 'rediss://user:password@redis:6379/0',
  authorization: 'Bearer secret',
};

function objectsOf(name: string): JsonObject[] {
  return parseAllDocuments(textOf(name)).map((document) => {
    expect(document.errors).toEqual([]);
    return object(document.toJS());
  });
}

function drainMs({ drain }: Config): number {
  return drain.delayMs + drain.parkedMs + drain.timeoutMs;
}

/** What Compose makes of a value whose variables are not set. */
function composed(value: string): string {
  const filled = value.replace(/\$\{[A-Z_]+:-([^}]*)\}/g, '$1');
  return filled.replace(/\$\{[A-Z_]+:\?[^}]*\}/g, 'secret');
}

function read(name: string): JsonObject {
  return object(parse(textOf(name), { merge: true }));
}

function member(of: JsonObject, ...path: readonly string[]): JsonObject {
  return path.reduce((parent, name) => object(parent[name]), of);
}

function object(value: JsonValue | undefined): JsonObject {
  if (!isJsonObject(value)) throw new Error(`expected a map, got ${JSON.stringify(value)}`);
  return value;
}

function list(value: JsonValue | undefined): readonly JsonValue[] {
  if (!Array.isArray(value)) throw new Error(`expected a list, got ${JSON.stringify(value)}`);
  return value;
}
