/** A session with several calls, which its server has forgotten. */
import { describe, expect, test } from 'vitest';
import { eventStream, json, legacyServer } from '../../../fixtures/servers/scripted-server.ts';
import {
  call,
  closeAfterTest,
  reply,
  upstreamOf,
} from '../../../fixtures/servers/upstream-testbed.ts';
import { CLIENT } from '../../../fixtures/servers/session-stage.ts';

describe('a session that the server has forgotten', () => {
  /** Calls stay open; what comes later is refused as `gone` says. */
  async function forgetful(gone: { ping: boolean }) {
    let isForgotten = false;
    let pong = () => {};
    const ponged = new Promise<void>((resolve) => (pong = resolve));
    const server = await legacyServer(({ body }, response) => {
      const isRefused = isForgotten && (body.method !== 'ping' || gone.ping);
      if (isRefused) return json(response, 404, {});
      if (body.method === 'ping') {
        response.once('close', pong);
        return json(response, 200, reply(body.id, {}));
      }
      eventStream(response);
    });
    const upstream = upstreamOf(server, { transport: 'streamable-http' });
    const session = await upstream.openSession({ profile: CLIENT, clientInfo: null, headers: {} });
    closeAfterTest(() => session.close());
    const running = [call(session), call(session)];
    for (const { exchange } of running) await exchange.accepted;
    isForgotten = true;
    await expect(call(session).exchange.accepted).rejects.toMatchObject({ code: 'session_gone' });
    await server.saw(({ body }) => body?.method === 'ping');
    return { session, running, ponged };
  }

  // Rule concurrent-7: When the server is seen to have forgotten a session, a ping asks it once more. If it refuses
  // that as well, all calls of the session are lost. Otherwise those that run go on, and no further call begins there.
  test('is lost for all its calls, although their streams stay open', async () => {
    const { session, running } = await forgetful({ ping: true });
    for (const { heard } of running) {
      expect(await heard.until('lost')).toEqual(['lost', 'session_gone']);
    }
    expect(session.dead).toBe(true);
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
    await taken.heard.until('lost');
    refuse();
    await expect(late.exchange.accepted).rejects.toMatchObject({
      code: 'session_gone',
      details: { mayHaveActed: false },
    });
    expect(late.heard.events).toEqual([]);
  });

  // Rule concurrent-7.
  test('is not lost for the others if one process behind a load balancer does not know it', async () => {
    const { session, running, ponged } = await forgetful({ ping: false });
    await ponged;
    await expect(session.request('ping', {}, {})).rejects.toMatchObject({ code: 'session_gone' });
    expect(running.flatMap(({ heard }) => heard.events)).toEqual([]);
  });
});
