/** A server that repeats on its standalone stream what it sent there before, as rmcp does: questions are asked once. */
import { describe, expect, test } from 'vitest';
import { serverRequestId, sessionId, upstreamRequestId } from '../../../../src/protocol/ids.ts';
import { ManualClock, turnsUntil } from '../../../fixtures/manual-clock.ts';
import { eventStream, legacyServer } from '../../../fixtures/servers/scripted-server.ts';
import {
  ASKING,
  call,
  closeAfterTest,
  Heard,
  open,
  reply,
  upstreamOf,
} from '../../../fixtures/servers/upstream-testbed.ts';

const HTTP = { transport: 'streamable-http' } as const;
const question = (id: unknown) => ({
  ...{ jsonrpc: '2.0', id, method: 'elicitation/create' },
  params: {
    message: `Question ${String(id)}?`,
    requestedSchema: { type: 'object', properties: {} },
  },
});
const asked = (heard: Heard) =>
  heard.events.flatMap(([name, id]) => (name === 'asked' ? [id] : []));

type Stream = ReturnType<typeof eventStream>;

/** A server whose calls end when the test says, and whose standalone streams the test writes. */
async function ground() {
  const streams: Stream[] = [];
  const calls: { readonly id: unknown; readonly stream: Stream }[] = [];
  const server = await legacyServer(
    ({ body }, response) => void calls.push({ id: body.id, stream: eventStream(response) }),
    { onGet: (_received, response) => void streams.push(eventStream(response)) },
  );
  const clock = new ManualClock();
  return { server, clock, streams, calls, upstream: upstreamOf(server, HTTP, clock) };
}

// Rule questions-7.
test('a question that comes twice while no call runs is declined once', async () => {
  const { server, clock, streams, upstream } = await ground();
  await open(upstream);
  await turnsUntil(() => streams.length === 1);
  const replies = () => server.received.filter(({ body }) => body?.id === 0 && !body.method);
  streams[0]!.send(question(0));
  streams[0]!.send(question(0));
  streams[0]!.send(question(1));
  await server.saw(({ body }) => body?.id === 1 && body.method === undefined);
  expect(replies()).toHaveLength(1);
  clock.advance(1_000);
  streams[0]!.send(question(0));
  await turnsUntil(() => replies().length === 2);
});

// Rule questions-7.
describe('a question that comes again when the standalone stream is opened again', () => {
  test('is not asked of the call that runs then', async () => {
    const { clock, streams, calls, upstream } = await ground();
    const session = await open(upstream);
    const first = call(session);
    await turnsUntil(() => calls.length === 1);
    streams[0]!.send(question(0));
    await first.heard.until('asked');
    await first.exchange.respond(serverRequestId(0), { result: { action: 'cancel' } }, {});
    calls[0]!.stream.send(reply(calls[0]!.id));
    calls[0]!.stream.end();
    await first.heard.until('replied');
    await turnsUntil(() => clock.pending === 0);

    const second = call(session);
    await turnsUntil(() => calls.length === 2);
    streams[0]!.end();
    await turnsUntil(() => clock.pending > 0);
    clock.advance(500);
    await turnsUntil(() => streams.length === 2);
    streams[1]!.send(question(0));
    streams[1]!.send(question(1));
    await second.heard.until('asked');
    expect(asked(second.heard)).toEqual([1]);
  });

  test('is asked of the next call by a server that uses an id twice on one stream', async () => {
    const { clock, streams, calls, upstream } = await ground();
    const session = await open(upstream);
    const first = call(session);
    await turnsUntil(() => calls.length === 1);
    clock.advance(1_000);
    streams[0]!.send(question('form'));
    await first.heard.until('asked');
    await first.exchange.respond(serverRequestId('form'), { result: { action: 'cancel' } }, {});
    calls[0]!.stream.send(reply(calls[0]!.id));
    await first.heard.until('replied');
    const second = call(session);
    await turnsUntil(() => calls.length === 2);
    streams[0]!.send(question('form'));
    await second.heard.until('asked');
    expect(asked(second.heard)).toEqual(['form']);
  });

  test('is not asked of a call that was taken over, and newer ones are', async () => {
    const { streams, upstream } = await ground();
    const owner = { profile: ASKING, clientInfo: null, headers: {} };
    const id = sessionId('session-1');
    const point = { sessionId: id, revision: '2025-11-25', lastEventId: 'e1' } as const;
    const session = await upstream.resumeSession(owner, point);
    closeAfterTest(() => session.close());
    const heard = new Heard();
    session.resumeCall(upstreamRequestId(7), point, heard, {}, [serverRequestId(2)]);
    await turnsUntil(() => streams.length === 1);
    await session.openStandaloneStream({});
    const standalone = streams[1]!;
    for (const number of [0, 1, 2, 3]) standalone.send(question(number));
    await heard.until('asked');
    expect(asked(heard)).toEqual([3]);
  });
});
