/** Several calls at once in one session: whose question it is, over real sockets. */
import { describe, expect, test } from 'vitest';
import { serverRequestId } from '../../../../src/protocol/ids.ts';
import type { JsonRpcReply } from '../../../../src/protocol/json-rpc.ts';
import { turnsUntil } from '../../../fixtures/manual-clock.ts';
import { eventStream, legacyServer } from '../../../fixtures/servers/scripted-server.ts';
import {
  ASKING,
  closeAfterTest,
  reply,
  upstreamOf,
} from '../../../fixtures/servers/upstream-testbed.ts';
import {
  ELICITATION,
  httpSseStage,
  questionsOf,
  settled,
  stage,
  turnOver,
  unanswerableOf,
} from '../../../fixtures/servers/session-stage.ts';

const ACCEPTED: JsonRpcReply = { result: { action: 'accept', content: {} } };
const SAMPLING = { method: 'sampling/createMessage', params: { messages: [], maxTokens: 1 } };

describe('several calls in one session', () => {
  // Rule questions-1.
  test('are each asked what comes on their own streams', async () => {
    const { start, session } = await stage();
    const one = await start();
    const other = await start();
    one.send({ id: 'of-one', ...ELICITATION });
    other.send({ id: 'of-other', ...SAMPLING });
    await one.heard.until('asked');
    await other.heard.until('asked');
    expect(questionsOf(one)).toEqual(['of-one']);
    expect(questionsOf(other)).toEqual(['of-other']);
    expect(session.questions.askingStyle).toBe('on-stream');
    expect(session.questions.isHolding).toBe(false);
  });

  // Rule concurrent-1.
  test.each([
    ['Streamable HTTP', stage],
    ['HTTP+SSE', httpSseStage],
  ])(
    'are not those of a call that waits for its client, once it has asked all that it asks in one turn, over %s',
    async (_name, open) => {
      const ground = await open({ holdsPings: true });
      const { start, send, pong, server } = ground;
      const waiting = await start();
      send({ id: 'first', ...ELICITATION });
      await waiting.heard.until('asked');
      const working = await start();
      await server.saw(({ body }) => body?.method === 'ping');
      send({ id: 'held', ...ELICITATION });
      await settled(ground);
      expect([questionsOf(waiting), questionsOf(working)]).toEqual([['first'], []]);
      pong();
      await turnOver(ground);
      send({ id: 'certain', ...ELICITATION });
      await settled(ground);
      expect([questionsOf(waiting), questionsOf(working)]).toEqual([['first'], ['certain']]);
    },
  );

  // Rule concurrent-1.
  test.each([
    ['Streamable HTTP', stage],
    ['HTTP+SSE', httpSseStage],
  ])('wait for 2 s for a server that does not reply to pings, over %s', async (_name, open) => {
    const ground = await open({ holdsPings: true });
    const { clock, start, send, server } = ground;
    const waiting = await start();
    send({ id: 'first', ...ELICITATION });
    await waiting.heard.until('asked');
    const working = await start();
    await server.saw(({ body }) => body?.method === 'ping');
    clock.advance(1_999);
    send({ id: 'held', ...ELICITATION });
    await settled(ground);
    clock.advance(1);
    await turnOver(ground);
    send({ id: 'certain', ...ELICITATION });
    await settled(ground);
    expect([questionsOf(waiting), questionsOf(working)]).toEqual([['first'], ['certain']]);
  });

  // Rule concurrent-1.
  test('are those of a call whose answer is on its way to the server, which goes on before it responds', async () => {
    const ground = await stage();
    const { start, send, replied, holdReply } = ground;
    const answered = await start();
    send({ id: 'first', ...ELICITATION });
    await answered.heard.until('asked');
    const waiting = await start();
    await turnOver(ground);
    send({ id: 'second', ...ELICITATION });
    await waiting.heard.until('asked');
    await turnOver(ground);
    const respond = holdReply(202);
    const answer = answered.exchange.respond(serverRequestId('first'), ACCEPTED, {});
    await replied('first');
    send({ id: 'third', ...ELICITATION });
    await settled(ground);
    expect([questionsOf(answered), questionsOf(waiting)]).toEqual([['first', 'third'], ['second']]);
    respond();
    await answer;
  });

  // Rule concurrent-1: If several calls could have asked, the question is held until one of them is left.
  test.each([
    ['Streamable HTTP', stage],
    ['HTTP+SSE', httpSseStage],
  ])('wait until it is certain whose question it is, over %s', async (_name, open) => {
    const ground = await open();
    const { start, session, send, replies } = ground;
    const one = await start();
    const other = await start();
    send({ id: 'q', ...ELICITATION });
    await settled(ground);
    const late = await start();
    expect([one, other, late].map(questionsOf)).toEqual([[], [], []]);
    expect(session.questions.isHolding).toBe(true);
    one.finish();
    await other.heard.until('asked');
    expect([one, other, late].map(questionsOf)).toEqual([[], ['q'], []]);
    expect(session.questions.askingStyle).toBe('uncorrelated');
    expect(session.questions.isHolding).toBe(false);
    await other.exchange.respond(serverRequestId('q'), ACCEPTED, {});
    expect(replies()['q']).toEqual({ action: 'accept', content: {} });
  });

  // Rule concurrent-2: After 30 s the question is declined. A call that fails then has `data.reason`
  // `call_not_answerable` and `data.cause` `ambiguous`. A session holds 64 questions or 1 MiB.
  test('have a question declined that stays ambiguous', async () => {
    const ground = await stage();
    const { clock, start, send, replied } = ground;
    const one = await start();
    const other = await start();
    send({ id: 'form', ...ELICITATION });
    send({ id: 'model', ...SAMPLING });
    await settled(ground);
    const late = await start();
    clock.advance(29_999);
    expect(unanswerableOf(one)).toEqual([]);
    clock.advance(1);
    expect(await replied('form')).toEqual({ action: 'cancel' });
    expect(await replied('model')).toEqual({ code: -1 });
    const told = [
      ['elicitation/create', 'ambiguous'],
      ['sampling/createMessage', 'ambiguous'],
    ];
    expect([one, other, late].map(unanswerableOf)).toEqual([told, told, []]);
    expect([one, other, late].map(questionsOf)).toEqual([[], [], []]);
    expect(clock.pending).toBe(0);
  });

  // Rule concurrent-11: A call that has worked or waited for 60 s can have given its question up, and counts as one
  // that could have asked.
  test.each([
    ['Streamable HTTP', stage],
    ['HTTP+SSE', httpSseStage],
  ])(
    'are not asked what another of them can have given up while it was held, over %s',
    async (_name, open) => {
      const ground = await open();
      const { clock, start, send, replied } = ground;
      const old = await start();
      clock.advance(31_000);
      const other = await start();
      send({ id: 'late', ...ELICITATION });
      await settled(ground);
      clock.advance(29_000);
      old.finish();
      await old.heard.until('replied');
      await settled(ground);
      expect(questionsOf(other)).toEqual([]);
      clock.advance(1_000);
      expect(await replied('late')).toEqual({ action: 'cancel' });
      expect(unanswerableOf(other)).toEqual([['elicitation/create', 'ambiguous']]);
    },
  );

  // Rule concurrent-11.
  test('are not asked what comes just after the end of one that can have given it up', async () => {
    const ground = await stage();
    const { clock, start, send, replied } = ground;
    const old = await start();
    clock.advance(60_000);
    old.finish();
    await old.heard.until('replied');
    const next = await start();
    clock.advance(4_999);
    send({ id: 'late', ...ELICITATION });
    await settled(ground);
    clock.advance(1);
    send({ id: 'own', ...ELICITATION });
    await settled(ground);
    expect(questionsOf(next)).toEqual(['own']);
    clock.advance(29_999);
    expect(await replied('late')).toEqual({ action: 'cancel' });
  });

  // Rule concurrent-11.
  test('are asked what comes on the one stream of all after the reply to an old one', async () => {
    const ground = await httpSseStage();
    const { clock, start, send } = ground;
    const old = await start();
    clock.advance(60_000);
    old.finish();
    const next = await start();
    send({ id: 'own', ...ELICITATION });
    await settled(ground);
    expect(questionsOf(next)).toEqual(['own']);
  });

  // Rule concurrent-11.
  test('are asked what is held when one ends that got its last answer a moment ago', async () => {
    const ground = await stage();
    const { clock, start, send } = ground;
    const old = await start();
    send({ id: 'first', ...ELICITATION });
    await old.heard.until('asked');
    clock.advance(60_000);
    await old.exchange.respond(serverRequestId('first'), ACCEPTED, {});
    const other = await start();
    send({ id: 'own', ...ELICITATION });
    await settled(ground);
    expect(questionsOf(other)).toEqual([]);
    old.finish();
    await other.heard.until('asked');
    expect(questionsOf(other)).toEqual(['own']);
  });

  // Rule concurrent-11.
  test('are not asked what one can have asked that waits for its answer for a minute', async () => {
    const ground = await stage();
    const { clock, start, send, replied } = ground;
    const old = await start();
    send({ id: 'first', ...ELICITATION });
    await old.heard.until('asked');
    const other = await start();
    clock.advance(60_000);
    send({ id: 'late', ...ELICITATION });
    await settled(ground);
    expect([old, other].map(questionsOf)).toEqual([['first'], []]);
    clock.advance(30_000);
    expect(await replied('late')).toEqual({ action: 'cancel' });
    expect(unanswerableOf(other)).toEqual([['elicitation/create', 'ambiguous']]);
  });

  // Rule concurrent-11.
  test.each([
    ['less than a minute', 59_999],
    ['75 s', 75_000],
  ])('are asked what comes while one waits for its answer for %s', async (_name, waitsForMs) => {
    const ground = await stage();
    const { clock, start, send } = ground;
    const old = await start();
    send({ id: 'first', ...ELICITATION });
    await old.heard.until('asked');
    clock.advance(waitsForMs);
    const other = await start();
    await turnOver(ground);
    send({ id: 'own', ...ELICITATION });
    await other.heard.until('asked');
    expect([old, other].map(questionsOf)).toEqual([['first'], ['own']]);
  });

  // Rule concurrent-11.
  test('are not asked what one can have asked that got one of two answers, and waits for the other for a minute', async () => {
    const ground = await stage();
    const { clock, start, send } = ground;
    const old = await start();
    send({ id: 'first', ...ELICITATION });
    send({ id: 'second', ...ELICITATION });
    await settled(ground);
    clock.advance(59_000);
    await old.exchange.respond(serverRequestId('first'), ACCEPTED, {});
    const other = await start();
    clock.advance(1_000);
    send({ id: 'late', ...ELICITATION });
    await settled(ground);
    expect([old, other].map(questionsOf)).toEqual([['first', 'second'], []]);
  });

  // Rule concurrent-2.
  test('have no more than 64 questions held', async () => {
    const ground = await stage();
    const { start, send, replied, replies } = ground;
    await start();
    await start();
    for (let index = 0; index <= 64; index += 1) send({ id: `q${index}`, ...ELICITATION });
    expect(await replied('q64')).toEqual({ action: 'cancel' });
    await settled(ground);
    expect(Object.keys(replies()).filter((id) => id.startsWith('q'))).toEqual(['q64']);
  });

  // Rule concurrent-3: A held question is declined when its calls have ended, and dropped when the server withdraws
  // it.
  test('are not asked what the server takes back', async () => {
    const ground = await stage();
    const { start, send, replies, clock } = ground;
    const one = await start();
    const other = await start();
    send({ id: 'q', ...ELICITATION });
    send({ method: 'notifications/cancelled', params: { requestId: 'q' } });
    await settled(ground);
    one.finish();
    await one.heard.until('replied');
    clock.advance(60_000);
    await settled(ground);
    expect(questionsOf(other)).toEqual([]);
    expect(replies()).not.toHaveProperty('q');
  });

  // Rule concurrent-3.
  test('leave no question behind when the last of them ends', async () => {
    const ground = await stage();
    const { start, send, replied } = ground;
    const one = await start();
    const other = await start();
    send({ id: 'q', ...ELICITATION });
    await settled(ground);
    one.exchange.abandon();
    other.finish();
    expect(await replied('q')).toEqual({ action: 'cancel' });
    expect([one, other].map(questionsOf)).toEqual([[], []]);
  });

  test('all end when their session is over', async () => {
    const { start, session, send, server } = await httpSseStage();
    const calls = [await start(), await start(), await start()];
    send({ id: 'q', ...ELICITATION });
    server.cut();
    for (const { heard } of calls) {
      expect(await heard.until('lost')).toEqual(['lost', 'upstream_unavailable']);
    }
    expect(session.dead).toBe(true);
  });
});

describe('what the calls of a session share', () => {
  // Rule concurrent-6: The log level of a session is the most detailed one that a call asked for.
  test('pings go on until no call wants them', async () => {
    const ground = await stage();
    const { clock, session, server } = ground;
    const [one, other] = [{}, {}];
    const pings = () => server.methods().filter((method) => method === 'ping').length;
    session.keepAlive(true, one);
    clock.advance(40_000);
    session.keepAlive(true, other);
    session.keepAlive(false, one);
    clock.advance(20_000);
    await turnsUntil(() => pings() === 1);
    session.keepAlive(false, other);
    clock.advance(600_000);
    await settled(ground);
    expect(pings()).toBe(1);
  });

  // Rule concurrent-6.
  test('the most detailed log level counts, in whatever order calls ask for theirs', async () => {
    const levels: string[] = [];
    const server = await legacyServer(
      ({ body }, response) => {
        levels.push(body.params.level);
        response.writeHead(200, { 'content-type': 'application/json' });
        response.end(JSON.stringify(reply(body.id, {})));
      },
      { onGet: (_received, response) => void eventStream(response) },
    );
    const upstream = upstreamOf(server, { transport: 'streamable-http' });
    const session = await upstream.openSession({ profile: ASKING, clientInfo: null, headers: {} });
    closeAfterTest(() => session.close());
    const wanted = ['error', 'debug', 'info', 'debug', 'warning'];
    await Promise.all(wanted.map((level) => session.ensureLogLevel(level, {})));
    expect(levels).toEqual(['error', 'debug']);
  });
});
