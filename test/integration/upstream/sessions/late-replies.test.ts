/** Replies that come on another stream of their session than that of their request, or on none. */
import { describe, expect, test } from 'vitest';
import { ManualClock, turnsUntil } from '../../../fixtures/manual-clock.ts';
import { CLIENT, settled, stage } from '../../../fixtures/servers/session-stage.ts';
import {
  eventStream,
  json,
  legacyServer,
  type Answer,
} from '../../../fixtures/servers/scripted-server.ts';
import {
  call,
  closeAfterTest,
  reply,
  upstreamOf,
} from '../../../fixtures/servers/upstream-testbed.ts';

const REPLIED = ['replied', { result: reply(0).result }];
const LOST = ['lost', 'upstream_unavailable'];

/** A server that accepts each call with 202. */
async function accepting(onGet: Answer) {
  const clock = new ManualClock();
  const server = await legacyServer((_received, response) => void response.writeHead(202).end(), {
    onGet,
  });
  const upstream = upstreamOf(server, { transport: 'streamable-http' }, clock);
  const session = await upstream.openSession({ profile: CLIENT, clientInfo: null, headers: {} });
  closeAfterTest(() => session.close());
  return { clock, session, server };
}

describe('a call whose stream ended without its reply', () => {
  // Rule resumption-4.
  test('gets the reply that comes on the stream of another call', async () => {
    const ground = await stage();
    const { start } = ground;
    const [one, other] = [await start(), await start()];
    other.endStream();
    await settled(ground);
    one.send(reply(other.id));
    expect(await other.heard.until('replied')).toEqual(REPLIED);
    one.finish();
    expect(await one.heard.until('replied')).toEqual(REPLIED);
  });

  // Rule resumption-4.
  test('is lost a second later if no other stream brings the reply', async () => {
    const ground = await stage();
    const { clock, start } = ground;
    const [, other] = [await start(), await start()];
    other.endStream();
    await turnsUntil(() => clock.nextInMs === 1_000);
    clock.advance(999);
    expect(other.heard.events).toEqual([]);
    clock.advance(1);
    expect(await other.heard.until('lost')).toEqual(LOST);
  });

  // Rule resumption-4.
  test('is lost at once when the last other stream has ended', async () => {
    const ground = await stage({ offersStream: false });
    const [one, other] = [await ground.start(), await ground.start()];
    one.endStream();
    other.endStream();
    expect(await one.heard.until('lost')).toEqual(LOST);
    expect(await other.heard.until('lost')).toEqual(LOST);
  });
});

describe('a call that the server accepts with 202', () => {
  // Rule wire-5.
  test('is lost at once if no stream can bring its reply', async () => {
    const { session } = await accepting(
      (_received, response) => void response.writeHead(405).end(),
    );
    expect(await call(session).heard.until('lost')).toEqual(LOST);
  });

  // Rule wire-5.
  test('gets its reply on the stream that names no call', async () => {
    let standalone: ReturnType<typeof eventStream> | undefined;
    const { clock, session, server } = await accepting(
      (_received, response) => void (standalone = eventStream(response)),
    );
    const { exchange, heard } = call(session);
    await exchange.accepted;
    clock.advance(299_999);
    expect(heard.events).toEqual([]);
    standalone?.send(reply(exchange.id));
    expect(await heard.until('replied')).toEqual(REPLIED);
    expect(server.received.filter(({ body }) => body?.method === 'tools/call')).toHaveLength(1);
  });

  // Rule wire-5.
  test('is lost after 5 minutes without a reply, or when that stream is refused', async () => {
    let refuses = false;
    let standalone: ReturnType<typeof eventStream> | undefined;
    const { clock, session } = await accepting((_received, response) => {
      if (refuses) json(response, 405, {});
      else standalone = eventStream(response);
    });
    const late = call(session);
    await late.exchange.accepted;
    clock.advance(300_000);
    expect(await late.heard.until('lost')).toEqual(LOST);
    const cut = call(session);
    await cut.exchange.accepted;
    refuses = true;
    standalone?.end();
    await turnsUntil(() => (clock.advance(1_000), cut.heard.events.length > 0));
    expect(cut.heard.events).toEqual([LOST]);
  });
});
