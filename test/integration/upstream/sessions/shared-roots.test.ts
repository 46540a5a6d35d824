/** `roots/list` on a stream that names no call, while several run in the session. */
import { describe, expect, test } from 'vitest';
import { serverRequestId } from '../../../../src/protocol/ids.ts';
import { questionsOf, settled, stage } from '../../../fixtures/servers/session-stage.ts';

const ROOTS = { method: 'roots/list' };

describe('roots/list on a stream that names no call', () => {
  // Rule concurrent-4: One running call asks for the roots of the caller, and the answer goes to every open
  // `roots/list`. After 2 s another call asks as well.
  test('is asked of one client, and every request gets the answer', async () => {
    const ground = await stage();
    const { start, send, replied, session } = ground;
    const one = await start();
    const other = await start();
    for (const id of ['r1', 'r2', 'r3']) send({ id, ...ROOTS });
    await settled(ground);
    expect([...questionsOf(one), ...questionsOf(other)]).toEqual(['r1']);
    const carrier = questionsOf(one).length > 0 ? one : other;
    const roots = { roots: [{ uri: 'file:///home' }] };
    await carrier.exchange.respond(serverRequestId('r1'), { result: roots }, {});
    for (const id of ['r1', 'r2', 'r3']) expect(await replied(id)).toEqual(roots);
    expect(session.questions.askingStyle).toBe('unknown');
    expect(session.questions.isHolding).toBe(false);
    send({ id: 'r4', ...ROOTS });
    await settled(ground);
    expect([...questionsOf(one), ...questionsOf(other)]).toContain('r4');
  });

  // Rule concurrent-4.
  test.each(['ends', 'is cancelled'])('is asked in another call when the first %s', async (how) => {
    const ground = await stage();
    const { start, send, replies, replied } = ground;
    const [one, other] = [await start(), await start()];
    send({ id: 'r', ...ROOTS });
    await settled(ground);
    const [first, second] = questionsOf(one).length > 0 ? [one, other] : [other, one];
    if (how === 'ends') first.finish();
    else await first.exchange.cancel('the client left', {});
    await second.heard.until('asked');
    expect(first.heard.events.map(([name]) => name)).toContain('withdrawn');
    // What the first call closes out no longer counts.
    await first.exchange.respond(
      serverRequestId('r'),
      { error: { code: -32603, message: '' } },
      {},
    );
    await settled(ground);
    expect(replies()).not.toHaveProperty('r');
    await second.exchange.respond(serverRequestId('r'), { result: { roots: [] } }, {});
    expect(await replied('r')).toEqual({ roots: [] });
  });

  /** Two calls of which one has been asked for 2 s, and the other has just been. */
  async function askedBoth() {
    const ground = await stage();
    const { clock, start, send } = ground;
    const [one, other] = [await start(), await start()];
    send({ id: 'r1', ...ROOTS });
    await settled(ground);
    const [first, second] = questionsOf(one).length > 0 ? [one, other] : [other, one];
    send({ id: 'r2', ...ROOTS });
    clock.advance(1_999);
    await settled(ground);
    expect([questionsOf(first), questionsOf(second)]).toEqual([['r1'], []]);
    clock.advance(1);
    await settled(ground);
    expect([questionsOf(first), questionsOf(second)]).toEqual([['r1'], ['r2']]);
    return { ...ground, first, second };
  }

  const HOME = { roots: [{ uri: 'file:///home' }] };

  // Rule concurrent-4.
  test('is asked of another client as well if the first does not answer', async () => {
    const ground = await askedBoth();
    const { first, second, replied, send } = ground;
    await second.exchange.respond(serverRequestId('r2'), { result: HOME }, {});
    for (const id of ['r1', 'r2']) expect(await replied(id)).toEqual(HOME);
    await settled(ground);
    expect(first.heard.events.map(([name]) => name)).toContain('withdrawn');
    send({ id: 'r3', ...ROOTS });
    await settled(ground);
    expect([...questionsOf(first), ...questionsOf(second)]).toContain('r3');
  });

  // Rule concurrent-4.
  test('gets one answer if both clients give one at once', async () => {
    const ground = await askedBoth();
    const { first, second, server, replied } = ground;
    await Promise.all([
      first.exchange.respond(serverRequestId('r1'), { result: HOME }, {}),
      second.exchange.respond(serverRequestId('r2'), { result: HOME }, {}),
    ]);
    for (const id of ['r1', 'r2']) expect(await replied(id)).toEqual(HOME);
    await settled(ground);
    const ids = server.received.flatMap(({ body }) => (body?.result?.roots ? [body.id] : []));
    expect(ids.toSorted()).toEqual(['r1', 'r2']);
  });

  // Rule concurrent-4.
  test('gets the second answer if the server does not take the first', async () => {
    const ground = await askedBoth();
    const { first, second, replied, holdReply } = ground;
    const refuse = holdReply();
    const refused = first.exchange.respond(serverRequestId('r1'), { result: HOME }, {});
    const kept = second.exchange.respond(serverRequestId('r2'), { result: HOME }, {});
    await first.exchange.cancel('the client left', {});
    refuse();
    await expect(refused).rejects.toMatchObject({ code: 'upstream_busy' });
    await kept;
    for (const id of ['r1', 'r2']) expect(await replied(id)).toEqual(HOME);
  });

  // Rule concurrent-4.
  test('is still asked of a second client when the first is cancelled', async () => {
    const ground = await askedBoth();
    const { first, second, replied } = ground;
    await first.exchange.cancel('the client left', {});
    await first.exchange.respond(serverRequestId('r1'), { error: { code: -1, message: '' } }, {});
    await second.exchange.respond(serverRequestId('r2'), { result: HOME }, {});
    for (const id of ['r1', 'r2']) expect(await replied(id)).toEqual(HOME);
  });

  test('that is taken back leaves the others that wait for the same answer', async () => {
    const ground = await stage();
    const { start, send, replies, replied } = ground;
    const one = await start();
    send({ id: 'r1', ...ROOTS });
    send({ id: 'r2', ...ROOTS });
    send({ method: 'notifications/cancelled', params: { requestId: 'r1' } });
    await settled(ground);
    expect(one.heard.events.map(([name]) => name)).toEqual(['asked']);
    await one.exchange.respond(serverRequestId('r1'), { result: { roots: [] } }, {});
    expect(await replied('r2')).toEqual({ roots: [] });
    expect(replies()).not.toHaveProperty('r1');
  });
});
