/**
 * A server that takes the GET of the standalone stream, and responds with the first message only. The servlets of the
 * Java SDK do.
 */
import type { ServerResponse } from 'node:http';
import { describe, expect, test } from 'vitest';
import { gatewayBefore } from '../../fixtures/gateways/test-gateway.ts';
import { ListeningClient } from '../../fixtures/clients/listening-client.ts';
import { ManualClock, turnsUntil } from '../../fixtures/manual-clock.ts';
import { eventStream, json, legacyServer } from '../../fixtures/servers/scripted-server.ts';
import {
  closeAfterTest,
  open,
  reply,
  upstreamOf,
} from '../../fixtures/servers/upstream-testbed.ts';

const HTTP = { transport: 'streamable-http' } as const;
const TOOLS_CHANGED = { jsonrpc: '2.0', method: 'notifications/tools/list_changed' };

async function holding() {
  const waiting: ServerResponse[] = [];
  const server = await legacyServer(
    ({ body }, response) => json(response, 200, reply(body.id, { tools: [] })),
    {
      onGet: (_received, response) => {
        waiting.push(response);
        response.once('close', () => waiting.splice(waiting.indexOf(response), 1));
      },
      capabilities: { tools: { listChanged: true } },
    },
  );
  const gets = () => server.received.filter(({ method }) => method === 'GET').length;
  return { server, waiting, gets };
}

/** A session that was opened while the server held the head back for 2 seconds. */
async function held() {
  const ground = await holding();
  const clock = new ManualClock();
  const upstream = upstreamOf(ground.server, HTTP, clock);
  const opening = open(upstream);
  await turnsUntil(() => ground.waiting.length === 1);
  clock.advance(2_000);
  return { ...ground, clock, upstream, session: await opening };
}

// Rule handshake-10.
describe('a server that holds the head of its standalone stream back', () => {
  test('keeps the first session waiting for 2 seconds, and the next ones for 100 ms', async () => {
    const { clock, upstream, waiting, session } = await held();
    expect(session.canPush).toBe(true);
    const next = open(upstream);
    await turnsUntil(() => waiting.length === 2);
    clock.advance(100);
    expect((await next).canPush).toBe(true);
  });

  test('is waited for again once it was seen to send the head at once', async () => {
    const { clock, upstream, waiting } = await held();
    const next = open(upstream);
    await turnsUntil(() => waiting.length === 2);
    eventStream(waiting[1]!);
    await next;
    let isOpen = false;
    const third = open(upstream).then(() => (isOpen = true));
    await turnsUntil(() => waiting.length === 3);
    clock.advance(100);
    await turnsUntil(() => clock.pending > 0);
    expect(isOpen).toBe(false);
    eventStream(waiting[2]!);
    await third;
  });

  test('is sent one GET, however long it has nothing to say', async () => {
    const { clock, gets, session, waiting } = await held();
    clock.advance(3_600_000);
    eventStream(waiting[0]!);
    await turnsUntil(() => session.standaloneStreamOpen);
    expect(gets()).toBe(1);
  });

  // Rule sessions-8.
  test('keeps its session when the connection breaks, and is sent the GET again', async () => {
    const { clock, gets, session, waiting } = await held();
    eventStream(waiting[0]!);
    await turnsUntil(() => session.standaloneStreamOpen);
    waiting[0]!.destroy();
    await turnsUntil(() => waiting.length === 0 && clock.pending > 0);
    const ready = session.ready({});
    clock.advance(500);
    await turnsUntil(() => waiting.length === 1);
    clock.advance(100);
    expect(await ready).toBe(true);
    expect(gets()).toBe(2);
  });

  // Rule handshake-10.
  test.each([
    ['a connection that breaks', (response: ServerResponse) => void response.destroy()],
    ['504 of a proxy', (response: ServerResponse) => void response.writeHead(504).end()],
  ])('is not down for %s before it has responded', async (_what, end) => {
    const ground = await holding();
    const clock = new ManualClock();
    const outcomes: unknown[] = [];
    const onOutcome = (outcome: unknown) => outcomes.push(outcome);
    const upstream = upstreamOf(ground.server, { ...HTTP, onOutcome }, clock);
    const opening = open(upstream);
    await turnsUntil(() => ground.waiting.length === 1);
    clock.advance(2_000);
    const session = await opening;
    const [first] = ground.waiting;
    end(first!);
    await turnsUntil(() => ground.waiting.length === 1 && ground.waiting[0] !== first);
    expect(outcomes.filter((outcome) => outcome !== 200 && outcome !== 202)).toEqual([]);
    expect(session.canPush).toBe(true);
  });

  test('offers no changes after all when it refuses the stream late', async () => {
    const { session, waiting } = await held();
    waiting[0]!.writeHead(405).end();
    await turnsUntil(() => !session.canPush);
    expect(await session.ready({})).toBe(true);
  });

  // Rules discover-5, subscriptions-2, changes-1.
  test('tells listeners what changes', { timeout: 20_000 }, async () => {
    const { server, waiting } = await holding();
    const { gateway } = await gatewayBefore(server);
    const client = await ListeningClient.open(gateway.url, { toolsListChanged: true });
    closeAfterTest(() => client.leave());
    expect(client.acknowledged).toEqual({ toolsListChanged: true });
    for (const response of [...waiting]) eventStream(response).send(TOOLS_CHANGED);
    await client.until(2);
    expect(client.messages[1]?.method).toBe('notifications/tools/list_changed');
  });
});
