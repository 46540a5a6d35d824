/** A session with several calls, which its server has forgotten. */
import { describe, expect, test } from 'vitest';
import { systemClock, type Clock } from '../../../../src/lib/clock.ts';
import { ManualClock, turnsUntil } from '../../../fixtures/manual-clock.ts';
import { eventStream, json, legacyServer } from '../../../fixtures/servers/scripted-server.ts';
import {
  call,
  closeAfterTest,
  reply,
  upstreamOf,
} from '../../../fixtures/servers/upstream-testbed.ts';
import { CLIENT, ELICITATION } from '../../../fixtures/servers/session-stage.ts';

describe('a session that the server has forgotten', () => {
  /** Calls stay open; what comes later is refused. */
  async function forgetful(clock: Clock = systemClock) {
    let isForgotten = false;
    const streams: ReturnType<typeof eventStream>[] = [];
    const server = await legacyServer((_received, response) => {
      if (isForgotten) return json(response, 404, {});
      streams.push(eventStream(response));
    });
    const upstream = upstreamOf(server, { transport: 'streamable-http' }, clock);
    const session = await upstream.openSession({ profile: CLIENT, clientInfo: null, headers: {} });
    closeAfterTest(() => session.close());
    const running = [call(session), call(session)] as const;
    for (const { exchange } of running) await exchange.accepted;
    isForgotten = true;
    await expect(call(session).exchange.accepted).rejects.toMatchObject({ code: 'session_gone' });
    await expect(session.request('ping', {}, {})).rejects.toMatchObject({ code: 'session_gone' });
    const ids = server.received.flatMap(({ body }) =>
      body?.method === 'tools/call' ? [body.id] : [],
    );
    return { session, running, streams, ids };
  }

  // Rule concurrent-7: No call begins in an expired session. Calls that run there go on until their stream ends, for
  // at most 5 minutes.
  test('goes on with the calls whose streams are open, until these end', async () => {
    const { session, running, streams, ids } = await forgetful();
    const [one, other] = running;
    expect(session.dead).toBe(true);
    let turns = 0;
    await turnsUntil(() => (turns += 1) > 100);
    streams[0]?.send(reply(ids[0]));
    expect(await one.heard.until('replied')).toEqual(['replied', { result: reply(0).result }]);
    streams[1]?.end();
    await other.heard.until('lost');
  });

  // Rule concurrent-7.
  test('goes on with a parked call whose stream is open when a ping is refused', async () => {
    const clock = new ManualClock();
    const server = await legacyServer(({ body }, response) => {
      if (body.method === 'ping') return json(response, 404, {});
      stream = eventStream(response);
      stream.send({ jsonrpc: '2.0', id: 'q', ...ELICITATION });
    });
    let stream: ReturnType<typeof eventStream> | undefined;
    const upstream = upstreamOf(server, { transport: 'streamable-http' }, clock);
    const session = await upstream.openSession({ profile: CLIENT, clientInfo: null, headers: {} });
    closeAfterTest(() => session.close());
    const { heard, exchange } = call(session);
    await heard.until('asked');
    session.keepAlive(true);
    clock.advance(60_000);
    await turnsUntil(() => session.dead);
    clock.advance(120_000);
    expect(server.received.filter(({ body }) => body?.method === 'ping')).toHaveLength(1);
    expect(heard.events.map(([name]) => name)).toEqual(['asked']);
    stream?.send(reply(exchange.id));
    expect(await heard.until('replied')).toEqual(['replied', { result: reply(0).result }]);
  });

  // Rule concurrent-7.
  test('is lost for all its calls after 5 minutes, although their streams stay open', async () => {
    const clock = new ManualClock();
    const { running } = await forgetful(clock);
    clock.advance(299_999);
    expect(running.flatMap(({ heard }) => heard.events)).toEqual([]);
    clock.advance(1);
    for (const { heard } of running) {
      expect(await heard.until('lost')).toEqual(['lost', 'session_gone']);
    }
  });

  // Rule concurrent-7.
  test('leaves a request that is on its way its own refusal, after which it can be sent again', async () => {
    let refuse = () => {};
    let isForgotten = false;
    const server = await legacyServer(({ body }, response) => {
      if (body.params?.name === 'late') refuse = () => json(response, 404, {});
      else if (isForgotten) json(response, 404, {});
      else eventStream(response);
    });
    const upstream = upstreamOf(server, { transport: 'streamable-http' });
    const session = await upstream.openSession({ profile: CLIENT, clientInfo: null, headers: {} });
    closeAfterTest(() => session.close());
    const taken = call(session);
    await taken.exchange.accepted;
    const late = call(session, { name: 'late' });
    await server.saw(({ body }) => body?.params?.name === 'late');
    isForgotten = true;
    await expect(call(session).exchange.accepted).rejects.toMatchObject({ code: 'session_gone' });
    expect(taken.heard.events).toEqual([]);
    refuse();
    await expect(late.exchange.accepted).rejects.toMatchObject({
      code: 'session_gone',
      details: { mayHaveActed: false },
    });
    expect(late.heard.events).toEqual([]);
  });
});
