/** Calls that are resumed in a session that had others: each is asked its own. */
import { describe, expect, test } from 'vitest';
import {
  sessionId,
  upstreamRequestId,
  type UpstreamRequestId,
} from '../../../../src/protocol/ids.ts';
import { UNKNOWN_CALLS } from '../../../../src/upstream/session/questions/session-questions.ts';
import { ManualClock } from '../../../fixtures/manual-clock.ts';
import { eventStream, legacyServer } from '../../../fixtures/servers/scripted-server.ts';
import {
  closeAfterTest,
  Heard,
  reply,
  upstreamOf,
} from '../../../fixtures/servers/upstream-testbed.ts';
import {
  asked,
  CLIENT,
  ELICITATION,
  settled,
  type Stream,
} from '../../../fixtures/servers/session-stage.ts';

describe('a call that is resumed in a session that had others', () => {
  const POINT = { sessionId: sessionId('s'), revision: '2025-11-25', lastEventId: 'e1' } as const;
  const [OURS, OTHER] = [upstreamRequestId(7), upstreamRequestId(8)];

  /** The session of another replica, whose streams a GET resumes. */
  async function adopted() {
    const streams: Record<string, Stream> = {};
    const server = await legacyServer(() => {}, {
      onGet: ({ headers }, response) => {
        streams[String(headers['last-event-id'] ?? 'standalone')] = eventStream(response);
      },
    });
    const clock = new ManualClock();
    const upstream = upstreamOf(server, { transport: 'streamable-http' }, clock);
    await upstream.greet({});
    const owner = { profile: CLIENT, clientInfo: null, headers: {} };
    const session = await upstream.resumeSession(owner, POINT);
    closeAfterTest(() => session.close());
    const resume = async (id: UpstreamRequestId, from: string, beside?: UpstreamRequestId[]) => {
      const heard = new Heard();
      const point = { ...POINT, lastEventId: from, ...(beside === undefined ? {} : { beside }) };
      const exchange = session.resumeCall(id, point, heard, {});
      await heard.until('resumed');
      return { heard, exchange };
    };
    const on = (stream: string) => (message: object) =>
      streams[stream]?.send({ jsonrpc: '2.0', ...message });
    const settledOn = (stream: string) => settled({ server, send: on(stream) });
    return { ...asked(server), clock, session, resume, on, settledOn };
  }

  // Rule concurrent-5.
  test('is not asked what the others can have asked', async () => {
    const { clock, session, resume, on, settledOn, replied } = await adopted();
    const { heard, exchange } = await resume(OURS, 'e1', [OTHER]);
    await session.openStandaloneStream({});
    on('standalone')({ id: 'q', ...ELICITATION });
    await settledOn('standalone');
    expect(heard.events.map(([name]) => name)).toEqual(['resumed']);
    expect(exchange.resumable()).toMatchObject({ beside: [OTHER] });
    clock.advance(30_000);
    expect(await replied('q')).toEqual({ action: 'cancel' });
  });

  // Rule concurrent-5.
  test('counts as beside calls that nobody knows if there are more than a pointer names', async () => {
    const { session } = await adopted();
    const others = Array.from({ length: 65 }, (_one, index) => upstreamRequestId(100 + index));
    session.questions.mayRun(others);
    expect(session.questions.callsBeside(OURS)).toEqual([...others.slice(0, 64), UNKNOWN_CALLS]);
  });

  // Rule concurrent-5.
  test('stays beside calls that nobody knows once the thousand that are known have ended', async () => {
    const { session, clock } = await adopted();
    const others = Array.from({ length: 1_001 }, (_one, index) => upstreamRequestId(100 + index));
    session.questions.mayRun(others);
    for (const id of others) session.questions.callBegan(id);
    expect(session.questions.callsBeside(OURS)).toEqual([UNKNOWN_CALLS]);
    clock.advance(600_000);
    expect(session.questions.callsBeside(OURS)).toEqual([]);
  });

  // Rule concurrent-5.
  test('is asked its own when the other one is resumed as well, and has ended', async () => {
    const { session, resume, on, settledOn } = await adopted();
    const ours = await resume(OURS, 'e1', [OTHER]);
    const other = await resume(OTHER, 'e2', [OURS]);
    await session.openStandaloneStream({});
    on('standalone')({ id: 'q', ...ELICITATION });
    await settledOn('standalone');
    expect(ours.heard.events.map(([name]) => name)).toEqual(['resumed']);
    on('e2')(reply(OTHER));
    await other.heard.until('replied');
    expect(await ours.heard.until('asked')).toEqual(['asked', 'q', 'elicitation/create']);
    expect(ours.exchange.resumable()).not.toHaveProperty('beside');
  });

  // Rule concurrent-1.
  test('shares its stream with another one if that carries messages of both', async () => {
    const { resume, on, settledOn } = await adopted();
    const ours = await resume(OURS, 'e1');
    const other = await resume(OTHER, 'e2');
    on('e2')({ id: 'of-other', ...ELICITATION });
    await other.heard.until('asked');
    on('e1')({ id: 'of-other', ...ELICITATION });
    const progress = { progressToken: OTHER, progress: 1 };
    on('e1')({ method: 'notifications/progress', params: progress });
    await other.heard.until('notified');
    on('e1')({ id: 'of-somebody', ...ELICITATION });
    await settledOn('e1');
    expect(ours.heard.events.map(([name]) => name)).toEqual(['resumed']);
    on('e2')(reply(OTHER));
    expect(await ours.heard.until('asked')).toEqual(['asked', 'of-somebody', 'elicitation/create']);
  });
});
