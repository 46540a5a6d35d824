/** Reloads beside what else can happen to a process: its end, load, keys that are rotated, and files that are swapped. */
import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { ListeningClient } from '../../fixtures/clients/listening-client.ts';
import {
  callTool,
  type Exchanged,
  type SendOptions,
} from '../../fixtures/clients/modern-client.ts';
import { configText, type GatewayProcess } from '../../fixtures/gateways/gateway-process.ts';
import {
  answersOf,
  greeter,
  legacyServer,
  replica,
  replicas,
  slowGreeter,
  stateOf,
  text,
} from '../../fixtures/gateways/replica-testbed.ts';
import { isRunning, pidFile, until } from '../../fixtures/process-ids.ts';
import { countingServer } from '../../fixtures/servers/counting-server.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const STDIO = fileURLToPath(new URL('../../fixtures/servers/stdio-server.js', import.meta.url));

// Rule reload-9: A process that is stopped during a reload drains with the earlier configuration.
test.each([1, 2])('SIGTERM during a reload drains (%i worker(s))', async (workers) => {
  const { tools, finish } = slowGreeter();
  const legacy = await legacyServer({ tools });
  const pids = await pidFile();
  const config = { workers, drain: { delay: '0s', timeout: '20s' } };
  const gateway = await replica(legacy, { relay: false, config });
  const asked = await callTool(gateway.url, 'greet');
  const working = callTool(gateway.url, 'greet', answersOf(asked, 'Ada'));
  await legacy.saw('response');
  // It never replies, so the reload waits for it.
  const env = { PIDS: pids.path };
  const upstream = { command: process.execPath, args: [STDIO, 'silent'], env };
  const routes = [
    { id: 'mcp', path: '/mcp', upstream: { url: legacy.url } },
    { id: 'stdio', path: '/stdio', upstream },
  ];
  await gateway.write({ config: { ...config, routes } });
  await until(async () => (await pids.all()).length >= workers);
  const gone = gateway.drain();
  await gateway.saw('gateway.draining', workers);
  finish();
  expect(text(await working)).toBe('Hello Ada');
  expect(await gone).toBe(0);
  for (const event of ['config.reloaded', 'config.refused'])
    expect(gateway.named(event)).toEqual([]);
  await until(async () => (await pids.all()).every((pid) => !isRunning(pid)));
});

const key = (kid: string) => ({
  kid,
  key: Buffer.alloc(32, kid).toString('base64url'),
});
const kidOf = (asked: Exchanged): unknown =>
  JSON.parse(Buffer.from(stateOf(asked).split('.')[0] ?? '', 'base64url').toString()).kid;

// Rule reload-10: A key rotation in three steps loses no call.
test('keys that are rotated over two replicas lose no parked call', async () => {
  const { tools, effects } = greeter();
  const legacy = await legacyServer({ tools });
  const withKeys = (...kids: readonly string[]) => ({
    config: { seal: { audience: 'rotated', keys: kids.map(key) } },
  });
  const [one, other] = await replicas(legacy, 2, withKeys('old'));
  const parked: (readonly [owner: GatewayProcess, asked: Exchanged])[] = [];
  const park = async () => {
    for (const owner of [one, other]) parked.push([owner, await callTool(owner.url, 'greet')]);
  };
  await park();
  for (const kids of [['old', 'new'], ['new', 'old'], ['new']]) {
    for (const gateway of [one, other]) {
      expect(await gateway.reload(withKeys(...kids))).toMatchObject({ event: 'config.reloaded' });
      await park();
    }
  }
  expect(parked.map(([, asked]) => kidOf(asked))).toEqual(
    // Two calls after the start, and after each step at each of the two.
    ['old', 'old', 'old', 'old', 'old', 'old', 'new', 'old', ...Array(6).fill('new')],
  );
  const late = await replica(legacy, withKeys('new'));
  const refused = await callTool(late.url, 'greet', answersOf(parked[0]?.[1] as Exchanged, 'Eve'));
  expect(refused.response.error).toMatchObject({
    code: -32602,
    data: { reason: 'invalid_request_state' },
  });
  expect(late.named('pointer.refused')).toMatchObject([{ reason: 'unknown-key' }]);
  for (const [owner, asked] of parked) {
    const elsewhere = owner === one ? other : one;
    expect(text(await callTool(elsewhere.url, 'greet', answersOf(asked, 'Ada')))).toBe('Hello Ada');
  }
  expect(effects).toEqual(parked.map(() => 'Ada'));
});

/** Writes what a ConfigMap or a Secret holds into a folder, as the kubelet does. */
async function mount(into: string, version: string, files: Record<string, string>): Promise<void> {
  await mkdir(join(into, `..${version}`), { recursive: true });
  for (const [name, content] of Object.entries(files)) {
    await writeFile(join(into, `..${version}`, name), content);
  }
  await symlink(`..${version}`, join(into, '..data_tmp'));
  await rename(join(into, '..data_tmp'), join(into, '..data'));
}

// Rule reload-5.
test('a ConfigMap and a Secret that are swapped under a running gateway are in force, without a signal', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'mrtr-gateway-mounted-'));
  stopAfterTest(() => rm(folder, { recursive: true }));
  const { tools } = greeter();
  const legacy = await legacyServer({ tools });
  const config = (route: object = {}) => {
    const upstream = { url: legacy.url, headers: { 'x-key': `file:${folder}/secret/key` } };
    return configText({ upstream: '', relay: false, route: { upstream, ...route } });
  };
  await mount(join(folder, 'config'), 'one', { 'config.yaml': config() });
  await mount(join(folder, 'secret'), 'one', { key: 'first' });
  const file = join(folder, 'config', 'config.yaml');
  await symlink('..data/config.yaml', file);
  await symlink('..data/key', join(folder, 'secret', 'key'));
  const gateway = await replica(legacy, { file });
  const asked = await callTool(gateway.url, 'greet');
  await mount(join(folder, 'config'), 'two', {
    'config.yaml': config({ questions: { keyNames: { greet: ['name'] } } }),
  });
  await gateway.saw('config.reloaded');
  const named = await callTool(gateway.url, 'greet');
  expect(Object.keys(named.response.result.inputRequests)).toEqual(['name']);
  await mount(join(folder, 'secret'), 'two', { key: 'second' });
  await gateway.saw('config.reloaded', 2);
  await callTool(gateway.url, 'greet');
  const keys = legacy.received.flatMap(({ method, headers }) =>
    method === 'tools/call' ? [headers['x-key']] : [],
  );
  expect(keys).toEqual(['first', 'first', 'second']);
  for (const parked of [asked, named]) {
    expect(text(await callTool(gateway.url, 'greet', answersOf(parked, 'Ada')))).toBe('Hello Ada');
  }
});

const ADA: SendOptions = { headers: { authorization: 'Bearer ada', connection: 'close' } };

// Rule reload-11: Reloads under load cost no stream, session or parked call.
test(
  'fifty reloads under load lose nothing and leave nothing behind',
  { tags: ['long'], timeout: 120_000 },
  async () => {
    const { server, open } = await countingServer();
    const gateway = await replica(server, { relay: false });
    const call = (tool: string, more: object = {}) => callTool(gateway.url, tool, more, ADA);
    const listener = await ListeningClient.open(gateway.url, { toolsListChanged: true }, ADA);
    const parked = await Promise.all(Array.from({ length: 10 }, () => call('ask')));
    const running = Array.from({ length: 5 }, () => call('slow'));
    await gateway.saw('call.started', 15);
    const changes = [
      { route: { parking: { maxRounds: 3 } } },
      { route: { questions: { keyNames: { ask: ['name'] } } } },
      { config: { seal: { audience: 'fault-tests', keys: [key('b'), ...SEAL] } } },
      {
        config: {
          routes: ['/mcp', '/more'].map((path) => ({ path, upstream: { url: server.url } })),
        },
      },
      { config: { log: { level: 'debug', format: 'json' }, limits: { maxRunningCalls: 100 } } },
    ];
    let isOver = false;
    const texts: unknown[] = [];
    const load = (async () => {
      while (!isOver) {
        const asked = await call('ask');
        texts.push(text(await call('ask', answersOf(asked, 'Eve'))), text(await call('count')));
      }
    })();
    const opened: number[] = [];
    for (let times = 0; times < 50; times += 1) {
      await gateway.write(changes[times % changes.length] ?? {});
      const line = await gateway.hangUp();
      expect(line).toMatchObject({ event: 'config.reloaded' });
      if (times % changes.length === 4) opened.push(await gateway.openFiles());
    }
    isOver = true;
    await load;
    open();
    texts.push(...(await Promise.all(running)).map(text));
    for (const asked of parked) texts.push(text(await call('ask', answersOf(asked, 'Ada'))));
    // All in one session: each call has a number of its own, and none is lost.
    const counts = texts.map((value) => Number(String(value).split(' ').at(-1)));
    expect(counts.toSorted((a, b) => a - b)).toEqual(counts.map((_, index) => index + 1));
    expect(server.sessions).toBe(1);
    expect(listener.messages).toHaveLength(1);
    await listener.leave();
    const [first = 0] = opened;
    await until(async () => (await gateway.openFiles()) <= first);
    expect(gateway.named('not a log line')).toEqual([]);
  },
);

const SEAL = [{ kid: 'test', key: Buffer.alloc(32, 7).toString('base64url') }];
