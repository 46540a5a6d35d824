/**
 * Attacks from every side that the gateway has, end to end: callers that share a gateway, strangers at
 * the relay's port, a store that somebody else writes to, and what lands in places that others read.
 */
import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import { Redis } from 'ioredis';
import { describe, expect, test } from 'vitest';
import { sealMessage } from '../../../src/fleet/relay/messages.ts';
import { createKeyRing } from '../../../src/seal/key-ring.ts';
import {
  answersOf,
  greeter,
  legacyServer,
  reasonOf,
  redisServer,
  replicas,
  stateOf,
  text,
} from '../../fixtures/gateways/replica-testbed.ts';
import { askName, type LegacyServerOptions } from '../../fixtures/servers/legacy-server.ts';
import { callTool, send, type Exchanged } from '../../fixtures/clients/modern-client.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const IDENTITY = {
  identity: { source: 'header', header: 'x-user' },
};

describe('callers that share a gateway', () => {
  // Rule wire-3.
  test('get only their own, though all their ids and tokens are alike', async () => {
    const tools: LegacyServerOptions['tools'] = {
      work: async (call) => {
        const name = await askName(call);
        const progressToken = call.extra._meta?.progressToken ?? 0;
        await call.extra.sendNotification({
          method: 'notifications/progress',
          params: { progressToken, progress: 1, message: name },
        });
        return name;
      },
    };
    const [gateway] = await replicas(await legacyServer({ tools }), 1);
    const names = Array.from({ length: 40 }, (_, index) => `caller ${index}`);
    const done = await Promise.all(
      names.map(async (name, index) => {
        const headers = { authorization: `Bearer ${index % 2}` };
        const alike = { id: 1, meta: { progressToken: 'p' }, headers };
        const asked = await callTool(gateway.url, 'work', {}, alike);
        return callTool(gateway.url, 'work', answersOf(asked, name), alike);
      }),
    );
    expect(done.map(text)).toEqual(names);
    expect(done.map(({ notifications }) => notifications.map((one) => one.params.message))).toEqual(
      names.map((name) => [name]),
    );
  });

  // Rule pointer-3.
  test.for([
    ['another user', { 'x-user': 'Eve' }, -32602],
    ['nobody', {}, -32600],
  ] as const)('cannot use a pointer as %s', async ([, headers, code]) => {
    const { effects, tools } = greeter();
    const [gateway] = await replicas(await legacyServer({ tools }), 1, { config: IDENTITY });
    const own = { headers: { 'x-user': 'Ada' } };
    const asked = await callTool(gateway.url, 'greet', {}, own);
    const stolen = await callTool(gateway.url, 'greet', answersOf(asked, 'Mallory'), { headers });
    expect(stolen.response.error.code).toBe(code);
    expect(effects).toEqual([]);
    const done = await callTool(gateway.url, 'greet', answersOf(asked, 'Ada'), own);
    expect(text(done)).toBe('Hello Ada');
  });
});

// Rule relay-8.
test('the port of the relay takes nothing from strangers, and serves nothing else', async () => {
  const [gateway] = await replicas(await legacyServer({ tools: greeter().tools }), 1);
  const relay = String((await gateway.saw('relay.listening'))[0]?.['url']);
  const retry = { kind: 'retry', id: 'id', from: 'me', number: 0, text: '{}' } as const;
  const ring = createKeyRing([{ kid: 'test', secret: Buffer.alloc(32, 7) }], 'relay');
  const forAnother = sealMessage(ring, { audience: 'test', key: 'another process' }, retry);
  for (const body of ['', '{}', 'a..b.c.d', forAnother]) {
    const answer = await fetch(new URL('/relay', relay), { method: 'POST', body });
    expect([answer.status, await answer.text()]).toEqual([421, '']);
  }
  for (const path of ['/mcp', '/metrics', '/healthz', '/']) {
    expect((await fetch(new URL(path, relay))).status).toBe(404);
  }
});

// Rule relay-8.
test('the port of the relay waits for no body of a stranger', async () => {
  const [gateway] = await replicas(await legacyServer({ tools: greeter().tools }), 1);
  const relay = new URL(String((await gateway.saw('relay.listening'))[0]?.['url']));
  const stranger = connect(Number(relay.port), relay.hostname);
  stopAfterTest(async () => void stranger.destroy());
  stranger.write('POST /relay HTTP/1.1\r\nhost: relay\r\ncontent-length: 11000000\r\n\r\naaaa');
  let read = '';
  // It ends although most of the body never comes.
  for await (const chunk of stranger) read += String(chunk);
  expect(read).toMatch(/^HTTP\/1\.1 421 /);
});

// Rule relay-8.
test('a retry is relayed unreadably, and a response that a stranger gives in place of the owner is none', async () => {
  const { effects, tools } = greeter();
  const legacy = await legacyServer({ tools });
  let read = '';
  const stranger = createServer();
  stranger.on('upgrade', ({ headers }, socket) => {
    read += JSON.stringify(headers);
    socket.on('data', (chunk) => (read += String(chunk))).on('error', () => {});
    const result = { content: [{ type: 'text', text: 'forged' }], resultType: 'complete' };
    const line = JSON.stringify({ type: 'answer', answer: { kind: 'result', result } });
    socket.write(
      'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: mrtr-relay/1\r\n' +
        `mrtr-relay-hello: forged\r\n\r\n${line}\n`,
    );
  });
  await new Promise<void>((resolve) => stranger.listen(0, '127.0.0.1', resolve));
  stopAfterTest(async () => stranger.close());
  const { port } = stranger.address() as AddressInfo;
  const advertise = `http://127.0.0.1:${port}`;
  const config = { relay: { listen: '127.0.0.1:0', advertise } };
  const [one] = await replicas(legacy, 1, { relay: false, config });
  const [other] = await replicas(legacy, 1);
  const headers = { authorization: 'Bearer very-secret' };
  const asked = await callTool(one.url, 'greet', {}, { headers });
  const retried = await callTool(other.url, 'greet', answersOf(asked, 'Augusta'), { headers });
  expect(read.length).toBeGreaterThan(100);
  expect(read).not.toMatch(/very-secret|Augusta|greet/);
  expect(JSON.stringify(retried.response)).not.toContain('forged');
  expect(effects).toEqual([]);
});

test('what is for the operator is not served to clients', async () => {
  const [gateway] = await replicas(await legacyServer({ tools: greeter().tools }), 1);
  for (const path of ['/metrics', '/readyz', '/healthz', '/drain']) {
    for (const method of ['GET', 'POST']) {
      const answer = await fetch(new URL(path, gateway.url), { method });
      expect(await answer.text()).not.toContain('mrtr_gateway');
      expect(answer.status, `${method} ${path}`).toBeGreaterThanOrEqual(400);
    }
  }
});

test('names that clients make up do not become metrics', async () => {
  const [gateway] = await replicas(await legacyServer({ tools: greeter().tools }), 1);
  const series = async () =>
    (await (await fetch(`${gateway.adminUrl}/metrics`)).text()).split('\n');
  await callTool(gateway.url, 'unknown');
  await send(gateway.url, 'made/up');
  const before = (await series()).length;
  for (let index = 0; index < 50; index += 1) {
    await callTool(gateway.url, `unknown-${index}`);
    await send(gateway.url, `made/up-${index}`);
  }
  const after = await series();
  expect(after.length - before, 'it does not grow with the names').toBeLessThan(50);
  expect(after.filter((line) => /unknown-\d|made\/up/.test(line))).toEqual([]);
});

test('error codes that a server makes up do not become metrics', async () => {
  let code = 1_000;
  const tools: LegacyServerOptions['tools'] = {
    fail: async () => {
      code += 1;
      throw Object.assign(new Error('failed'), { code });
    },
  };
  const [gateway] = await replicas(await legacyServer({ tools }), 1);
  for (let index = 0; index < 10; index += 1) {
    const failed = await callTool(gateway.url, 'fail');
    expect(failed.response.error.code).toBe(code);
  }
  await callTool(gateway.url, 'fail', { requestState: 'no pointer' });
  const metrics = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
  const counts = metrics.matchAll(
    /^mcp_server_operation_duration_seconds_count.*rpc_response_status_code="([^"]*)",error_type="([^"]*)"/gm,
  );
  // What the client did wrong is not an error.
  const found = [...counts].map(([, code, type]) => [code, type]);
  expect(found.toSorted()).toEqual([
    ['-32602', ''],
    ['other', 'other'],
  ]);
});

test('patterns of a server are not matched here, however long that would take', async () => {
  const tools: LegacyServerOptions['tools'] = {
    ask: async ({ server }) => {
      const requestedSchema = {
        type: 'object' as const,
        properties: { name: { type: 'string' as const, pattern: '^(a+)+$' } },
      };
      const asked = await server.request(
        { method: 'elicitation/create', params: { message: 'Name?', requestedSchema } },
        (await import('@modelcontextprotocol/sdk/types.js')).ElicitResultSchema,
      );
      return asked.action;
    },
  };
  const [gateway] = await replicas(await legacyServer({ tools }), 1);
  const asked = await callTool(gateway.url, 'ask');
  const done = await callTool(gateway.url, 'ask', answersOf(asked, `${'a'.repeat(60)}!`));
  expect(text(done)).toBe('accept');
});

describe('a store that somebody else writes to', { tags: ['redis'] }, () => {
  // Rule store-5.
  test('with garbage in every key makes for a clear error, and others are served', async () => {
    const garbage = [
      'garbage',
      '{"__proto__":{"fencingToken":1},"constructor":{"prototype":{}}}',
      'x'.repeat(1_048_576),
    ];
    const { effects, tools } = greeter();
    const legacy = await legacyServer({ tools, keepsEvents: true });
    const { url } = await redisServer();
    // Each call is claimed by its own id.
    const route = { sessions: { concurrency: 'separate' } };
    const [one, other] = await replicas(legacy, 2, { redis: url, route });
    const asked: Exchanged[] = [];
    for (const _value of garbage) asked.push(await callTool(one.url, 'greet'));
    await one.written('call.parked');
    const calls = one.named('call.started').map(({ call }) => String(call));
    await one.kill();
    const redis = new Redis(url.href);
    stopAfterTest(async () => redis.disconnect());
    for (const [index, value] of garbage.entries()) {
      for (const kind of ['claim', 'token', 'outcome']) {
        await redis.set(`mrtr:fault-tests:{${calls[index]}}:${kind}`, value);
      }
    }
    const refused = await Promise.all(
      asked.map((question) => callTool(other.url, 'greet', answersOf(question, 'Ada'))),
    );
    expect(refused.map(reasonOf)).toEqual(garbage.map(() => 'coordination_unavailable'));
    expect(effects).toEqual([]);
    const next = await callTool(other.url, 'greet');
    expect(text(await callTool(other.url, 'greet', answersOf(next, 'Eve')))).toBe('Hello Eve');
    expect(other.named('edge.failed')).toEqual([]);
  });

  // Rule pointer-1.
  test('finds no credential, answer or argument in it, and neither does a reader of the log', async () => {
    const secrets = ['canary-token', 'canary-answer', 'canary-argument'] as const;
    const [credential, answer, argument] = secrets;
    const { tools } = greeter();
    const legacy = await legacyServer({ tools, keepsEvents: true });
    const { url } = await redisServer();
    const config = { log: { level: 'trace', format: 'json' } };
    const [one, other] = await replicas(legacy, 2, { redis: url, config });
    const headers = { authorization: `Bearer ${credential}` };
    const args = { arguments: { for: argument } };
    const [first, second] = [
      await callTool(one.url, 'greet', args, { headers }),
      await callTool(one.url, 'greet', args, { headers }),
    ];
    const retry = (asked: typeof first) => ({ ...args, ...answersOf(asked, answer) });
    expect(text(await callTool(other.url, 'greet', retry(first), { headers }))).toMatch(answer);
    await one.kill();
    expect(text(await callTool(other.url, 'greet', retry(second), { headers }))).toMatch(answer);
    const redis = new Redis(url.href);
    stopAfterTest(async () => redis.disconnect());
    const keys = await redis.keys('*');
    const values = await Promise.all(keys.map((key) => redis.getBuffer(key)));
    const stored = [...keys, ...values.map((value) => value?.toString('latin1'))].join('\n');
    const sessions = legacy.received.map(({ session }) => session ?? '').filter((id) => id !== '');
    for (const gateway of [one, other]) await gateway.written('audit');
    const logged = JSON.stringify([...one.lines(), ...other.lines()]);
    for (const secret of [...secrets, ...sessions, stateOf(first), hash(credential)]) {
      expect(stored).not.toContain(secret);
      expect(logged).not.toContain(secret);
    }
    for (const id of sessions) expect(JSON.stringify([first, second])).not.toContain(id);
  });
});

function hash(secret: string): string {
  return createHash('sha256').update(`Bearer ${secret}`).digest('base64url');
}
