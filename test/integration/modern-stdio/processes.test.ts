/** The processes of a server over stdio that speaks 2026-07-28 only: whose they are, and what becomes of requests when they end. */
import { describe, expect, test } from 'vitest';
import { ListeningClient } from '../../fixtures/clients/listening-client.ts';
import { callTool, send } from '../../fixtures/clients/modern-client.ts';
import {
  ODD,
  OFFICIAL,
  modernStdio,
  officialClient,
  textOf,
} from '../../fixtures/gateways/modern-stdio.ts';
import { isRunning, until } from '../../fixtures/process-ids.ts';

const ALICE = { headers: { authorization: 'Bearer alice' } };
const BOB = { headers: { authorization: 'Bearer bob' } };
const INFO = { 'io.modelcontextprotocol/logLevel': 'info' };

describe('the clients of one caller', () => {
  // Rule modern-stdio-1 (2026-07-28 transports, "stdio"; subscriptions, "Receiving Notifications"): A caller has one
  // process of its own. Clients that use the same ids there get only what is theirs.
  test('each get their own results and progress, with the same ids and tokens', async () => {
    const { url } = await modernStdio(OFFICIAL);
    const meet = (name: string) =>
      callTool(
        url,
        'meet',
        { arguments: { name, of: 2 } },
        { ...ALICE, id: 1, meta: { progressToken: 'token' } },
      );
    const [ada, bea] = await Promise.all([meet('Ada'), meet('Bea')]);
    for (const [exchanged, name] of [
      [ada, 'Ada'],
      [bea, 'Bea'],
    ] as const) {
      const params = { progressToken: 'token', progress: 1, message: name };
      expect(exchanged.notifications).toMatchObject([{ params }]);
      expect(exchanged.response).toMatchObject({ id: 1, result: { content: [{ text: name }] } });
    }
  });

  // Rule modern-stdio-1.
  test('of the official SDK each get their own, two at once', async () => {
    const { url, pids } = await modernStdio(OFFICIAL);
    const clients = await Promise.all([
      officialClient(url, ALICE.headers),
      officialClient(url, ALICE.headers),
    ]);
    const told = await Promise.all(
      clients.map(async (client, index) => {
        const progress: unknown[] = [];
        const onprogress = ({ message }: { message?: string | undefined }) =>
          void progress.push(message);
        const args = { name: `client ${index}`, of: 2 };
        const { content } = await client.callTool(
          { name: 'meet', arguments: args },
          { onprogress },
        );
        return { content, progress };
      }),
    );
    expect(told).toEqual(
      [0, 1].map((index) => ({
        content: [{ type: 'text', text: `client ${index}` }],
        progress: [`client ${index}`],
      })),
    );
    // The first is the greeting of the start.
    expect(await pids.all()).toHaveLength(2);
  });

  // Rule modern-stdio-1.
  test('each hear their own subscriptions, under the ids of their requests', async () => {
    const { url } = await modernStdio(OFFICIAL);
    const options = { ...ALICE, id: 7 };
    const tools = await ListeningClient.open(url, { toolsListChanged: true }, options);
    const memo = await ListeningClient.open(
      url,
      { resourceSubscriptions: ['memo://one'] },
      options,
    );
    await textOf(url, 'change', {}, ALICE);
    await Promise.all([tools.until(2), memo.until(2)]);
    expect(tools.heard).toEqual(['tools/list_changed']);
    expect(memo.heard).toEqual(['resources/updated memo://one']);
    const named = [...tools.messages, ...memo.messages].map(
      ({ params }) => params._meta['io.modelcontextprotocol/subscriptionId'],
    );
    expect(new Set(named)).toEqual(new Set([7]));
    await Promise.all([tools.leave(), memo.leave()]);
  });

  // Rule modern-stdio-3 (logging, "Per-request log level"): A log level is sent only with a request that runs alone.
  test('get log messages only for a request that begins while no other one runs', async () => {
    const { url } = await modernStdio(OFFICIAL);
    const meet = (name: string, of: number) =>
      callTool(url, 'meet', { arguments: { name, of } }, { ...ALICE, meta: INFO });
    const alone = await meet('Ada', 1);
    expect(alone.notifications.map(({ params }) => params.data)).toEqual(['Ada has met']);
    const both = await Promise.all([meet('Ada', 2), meet('Bea', 2)]);
    const told = both.flatMap(({ notifications, response }) =>
      notifications.map(({ params }) => [params.data, response.result.content[0].text]),
    );
    expect(told).toHaveLength(1);
    expect(told[0]![0]).toBe(`${told[0]![1]} has met`);
  });

  // Rule modern-stdio-4: What a process sends about no open request reaches nobody. Its own requests get no response.
  test('hear nothing that is about none of their requests', async () => {
    const { url } = await modernStdio(ODD);
    const listener = await ListeningClient.open(url, { toolsListChanged: true }, ALICE);
    const meta = { ...INFO, progressToken: 'mine' };
    const waiting = callTool(url, 'hang', {}, { ...ALICE, id: 'mine', meta }).catch(() => null);
    await until(async () => (await textOf(url, 'came', {}, ALICE)).includes('tools/call'));
    const strayed = await callTool(url, 'stray', {}, { ...ALICE, meta: { progressToken: 'mine' } });
    expect(strayed).toMatchObject({
      notifications: [],
      response: { result: { content: [{ text: 'strayed' }] } },
    });
    expect(listener.heard).toEqual([]);
    expect(JSON.parse(await textOf(url, 'came', {}, ALICE))).not.toContain(undefined);
    await listener.leave();
    void waiting;
  });
});

describe('the processes', () => {
  // Rule modern-stdio-1.
  test('are one for each caller', async () => {
    const { url, gateway } = await modernStdio(ODD);
    const pids = [];
    for (const caller of [ALICE, BOB, ALICE, BOB]) pids.push(await textOf(url, 'pid', {}, caller));
    expect(pids.slice(0, 2)).toEqual(pids.slice(2));
    expect(new Set(pids).size).toBe(2);
    expect(gateway.log.named('process.started')).toHaveLength(3);
  });

  // Rule modern-stdio-6: A process that serves nothing ends after `sessions.idleTimeout`, or for another caller at
  // `sessions.max`.
  test('end when nothing uses them, and not while a client listens', async () => {
    const { url } = await modernStdio(ODD, { sessions: { idleTimeoutMs: 300 } });
    const pid = Number(await textOf(url, 'pid', {}, ALICE));
    const listener = await ListeningClient.open(url, { toolsListChanged: true }, BOB);
    await until(() => !isRunning(pid));
    const other = Number(await textOf(url, 'pid', {}, BOB));
    await until(async () => Number(await textOf(url, 'pid', {}, ALICE)) !== pid);
    expect(isRunning(other)).toBe(true);
    await listener.leave();
    await until(() => !isRunning(other));
  });

  // Rule modern-stdio-6.
  test('are so many at most', async () => {
    const { url, gateway } = await modernStdio(ODD, { sessions: { max: 1 } });
    const first = Number(await textOf(url, 'pid', {}, ALICE));
    const second = Number(await textOf(url, 'pid', {}, BOB));
    expect(second).not.toBe(first);
    expect(isRunning(first)).toBe(false);
    expect(gateway.log.named('process.crashed')).toEqual([]);
  });

  // Rule stdio-6.
  test('end with the gateway', async () => {
    const { url, gateway, pids } = await modernStdio(OFFICIAL);
    const hanging = callTool(url, 'hang', { arguments: { name: 'Ada' } }, ALICE).catch(() => null);
    await until(async () => (await pids.all()).length === 2);
    const listener = new ListeningClient(url, { toolsListChanged: true }, ALICE);
    await gateway.close();
    for (const pid of await pids.all()) expect(isRunning(pid)).toBe(false);
    await Promise.all([hanging, listener.answered]);
  });
});

describe('a client that leaves', () => {
  // Rule modern-stdio-9 (cancellation, "Transport-Specific Cancellation"): A request that its client closes is
  // cancelled by `notifications/cancelled`.
  test('cancels its request, and that of no other client', async () => {
    const { url, noted } = await modernStdio(OFFICIAL);
    const abort = new AbortController();
    const hang = (name: string, signal?: AbortSignal) =>
      callTool(
        url,
        'hang',
        { arguments: { name } },
        { ...ALICE, id: 1, ...(signal && { signal }) },
      ).catch(() => null);
    const leaving = hang('Ada', abort.signal);
    const staying = new AbortController();
    const other = hang('Bea', staying.signal);
    await until(async () => (await noted()).length === 2);
    abort.abort();
    await leaving;
    await until(async () => (await noted()).length === 3);
    expect((await noted()).at(-1)).toBe('cancelled Ada');
    expect(await textOf(url, 'echo', { said: 'on' }, ALICE)).toBe('on');
    expect(await noted()).toHaveLength(3);
    staying.abort();
    await other;
  });

  // Rule modern-stdio-9.
  test('cancels its subscription', async () => {
    const { url } = await modernStdio(ODD);
    const listener = await ListeningClient.open(url, { toolsListChanged: true }, ALICE);
    await listener.leave();
    await until(async () => /cancelled \d/.test(await textOf(url, 'came', {}, ALICE)));
  });
});

describe('a process that ends', () => {
  // Rule modern-stdio-10 (subscriptions, "Graceful Closure"): If the process ends, its requests fail with
  // `data.mayHaveActed`. Subscriptions go on in the next process, and each change is told once.
  test('by kill -9 fails its requests, and the next one starts another', async () => {
    const { url, pids, noted } = await modernStdio(OFFICIAL);
    const hanging = callTool(url, 'hang', { arguments: { name: 'Ada' } }, ALICE);
    await until(async () => (await noted()).includes('began Ada'));
    const pid = (await pids.all()).at(-1)!;
    process.kill(pid, 'SIGKILL');
    const { response } = await hanging;
    expect(response.error).toMatchObject({
      code: -32603,
      message: expect.stringContaining('was interrupted'),
      data: { reason: 'call_lost', mayHaveActed: 'unknown' },
    });
    expect(Number(await textOf(url, 'pid', {}, ALICE))).not.toBe(pid);
  });

  // Rule modern-stdio-10.
  test('after a sign of the call says that the server has begun it', async () => {
    const { url, gateway } = await modernStdio(ODD);
    const options = { ...ALICE, meta: { progressToken: 1 } };
    const { response } = await callTool(url, 'progress-and-exit', {}, options);
    expect(response.result).toMatchObject({
      isError: true,
      _meta: { 'mrtr-gateway/reason': 'call_lost', 'mrtr-gateway/mayHaveActed': 'yes' },
    });
    expect(gateway.log.named('process.crashed')).toMatchObject([
      { problem: 'the process ended with exit code 7' },
    ]);
  });

  // Rule modern-stdio-10.
  test('leaves its subscriptions to the next one, and each change is told once', async () => {
    const { url, pids } = await modernStdio(OFFICIAL);
    const listener = await ListeningClient.open(
      url,
      { toolsListChanged: true, resourceSubscriptions: ['memo://one'] },
      { ...ALICE, id: 'mine' },
    );
    process.kill((await pids.all()).at(-1)!, 'SIGKILL');
    await listener.until(3);
    expect(listener.heard.toSorted()).toEqual([
      'resources/updated memo://one',
      'tools/list_changed',
    ]);
    await textOf(url, 'change', {}, ALICE);
    await listener.until(5);
    expect(listener.messages[4].params._meta).toEqual({
      'io.modelcontextprotocol/subscriptionId': 'mine',
    });
    await listener.leave();
  });

  // Rule modern-stdio-12 (cancellation, "Behavior Requirements"): A subscription that the server ends has a result.
  test('is not needed to end a subscription', async () => {
    const { url } = await modernStdio(ODD);
    const listener = await ListeningClient.open(
      url,
      { toolsListChanged: true },
      { ...ALICE, id: 3 },
    );
    await textOf(url, 'end-listeners', {}, ALICE);
    expect((await listener.answered)?.response.result).toEqual({
      resultType: 'complete',
      _meta: { 'io.modelcontextprotocol/subscriptionId': 3 },
    });
  });
});

describe('a large message', () => {
  // Rule modern-stdio-13: A reply larger than `upstream.maxEvent` fails only its request.
  test('fails its request, and no other one', async () => {
    const { url } = await modernStdio(ODD, { upstream: { maxEventBytes: 10_000 } });
    const [large, pid] = await Promise.all([
      callTool(url, 'large', { arguments: { bytes: 20_000 } }, ALICE),
      textOf(url, 'pid', {}, ALICE),
    ]);
    expect(large.response.error).toMatchObject({
      message: expect.stringContaining('upstream.maxEvent is 10000 bytes'),
      data: { reason: 'upstream_protocol_error' },
    });
    expect(await textOf(url, 'pid', {}, ALICE)).toBe(pid);
  });
});

test('lists are as the server pages them', async () => {
  const { url } = await modernStdio(ODD);
  const { response } = await send(url, 'tools/list', {}, ALICE);
  expect(response.result).toMatchObject({ nextCursor: '5', ttlMs: 0 });
  const next = await send(url, 'tools/list', { cursor: '5' }, ALICE);
  expect(next.response.result.tools[0]).toMatchObject({ name: 'progress-and-exit', odd: true });
});
