/** What a call can have asked that ended without a reply. */
import { describe, expect, test } from 'vitest';
import { turnsUntil } from '../../../fixtures/manual-clock.ts';
import { serverRequestId } from '../../../../src/protocol/ids.ts';
import {
  ELICITATION,
  httpSseStage,
  questionsOf,
  settled,
  stage,
  unanswerableOf,
} from '../../../fixtures/servers/session-stage.ts';

describe('a call that ended without a reply', () => {
  // Rule concurrent-5: A call that ended without a reply counts as one that could have asked for 15 s, or for 10 min
  // if the server did not accept its cancellation.
  test('can ask for 15 s if the server took its cancellation', async () => {
    const ground = await stage();
    const { clock, start, session, send, replied } = ground;
    const cancelled = await start();
    await cancelled.exchange.cancel('the client left', {});
    cancelled.exchange.abandon();
    // So long nobody waits.
    expect([session.questions.isCertain, session.questions.certainInMs(false)]).toEqual([true, 0]);
    const next = await start();
    clock.advance(14_999);
    send({ id: 'early', ...ELICITATION });
    await settled(ground);
    expect([session.questions.certainInMs(true), session.questions.isHolding]).toEqual([1, true]);
    clock.advance(1);
    send({ id: 'later', ...ELICITATION });
    await settled(ground);
    expect(questionsOf(next)).toEqual(['later']);
    clock.advance(29_999);
    expect(await replied('early')).toEqual({ action: 'cancel' });
    expect(questionsOf(next)).toEqual(['later']);
  });

  // Rule concurrent-5.
  test('can ask for 5 s only if it was cancelled, and its tool ended here before without asking', async () => {
    const ground = await stage();
    const { clock, start, send } = ground;
    const cancelled = await start(true);
    await cancelled.exchange.cancel('the client left', {});
    cancelled.exchange.abandon();
    const next = await start();
    clock.advance(4_999);
    send({ id: 'early', ...ELICITATION });
    await settled(ground);
    expect(questionsOf(next)).toEqual([]);
    clock.advance(1);
    send({ id: 'later', ...ELICITATION });
    await settled(ground);
    expect(questionsOf(next)).toEqual(['later']);
  });

  // Rule concurrent-5.
  test('can ask for 15 s if it has asked, whatever its tool did before', async () => {
    const ground = await stage();
    const { clock, start, send } = ground;
    const cancelled = await start(true);
    cancelled.send({ id: 'own', ...ELICITATION });
    await cancelled.heard.until('asked');
    await cancelled.exchange.cancel('the client left', {});
    await cancelled.exchange.respond(serverRequestId('own'), { result: { action: 'cancel' } }, {});
    cancelled.exchange.abandon();
    const next = await start();
    clock.advance(14_999);
    send({ id: 'q', ...ELICITATION });
    await settled(ground);
    expect(questionsOf(next)).toEqual([]);
  });

  // Rule concurrent-5.
  test('can ask for 15 s more when a question is declined that can have been its own', async () => {
    const ground = await stage();
    const { clock, start, session, send, replied } = ground;
    const cancelled = await start();
    await cancelled.exchange.cancel('the client left', {});
    cancelled.exchange.abandon();
    const next = await start();
    clock.advance(10_000);
    send({ id: 'first', ...ELICITATION });
    await settled(ground);
    clock.advance(30_000);
    expect(await replied('first')).toEqual({ action: 'cancel' });
    expect([session.questions.isCertain, session.questions.certainInMs(true)]).toEqual([
      true,
      15_000,
    ]);
    clock.advance(14_999);
    send({ id: 'second', ...ELICITATION });
    await settled(ground);
    expect(questionsOf(next)).toEqual([]);
    clock.advance(1);
    send({ id: 'third', ...ELICITATION });
    await settled(ground);
    expect(questionsOf(next)).toEqual(['third']);
  });

  // Rule concurrent-5.
  test('can ask for a minute more when the server does not take what declines its question', async () => {
    const ground = await stage();
    const { clock, start, send, holdReply, replied } = ground;
    const cancelled = await start();
    await cancelled.exchange.cancel('the client left', {});
    cancelled.exchange.abandon();
    const next = await start();
    send({ id: 'first', ...ELICITATION });
    await settled(ground);
    const refuse = holdReply(401);
    clock.advance(30_000);
    expect(await replied('first')).toEqual({ action: 'cancel' });
    refuse();
    await turnsUntil(() => ground.session.questions.certainInMs(true) === 0);
    clock.advance(59_999);
    send({ id: 'second', ...ELICITATION });
    await settled(ground);
    expect(questionsOf(next)).toEqual([]);
    clock.advance(1);
    send({ id: 'third', ...ELICITATION });
    await settled(ground);
    expect(questionsOf(next)).toEqual(['third']);
  });

  // Rule concurrent-5.
  test('can ask for long if the server did not take its cancellation', async () => {
    const ground = await stage({ takesCancellation: false });
    const { clock, start, session, send, replied } = ground;
    const first = await start();
    send({ id: 'first', ...ELICITATION });
    await first.heard.until('asked');
    await first.exchange.cancel('the client left', {});
    first.exchange.abandon();
    expect(session.questions.isCertain).toBe(false);
    const next = await start();
    send({ id: 'q', ...ELICITATION });
    await settled(ground);
    clock.advance(30_000);
    expect(await replied('q')).toEqual({ action: 'cancel' });
    expect(questionsOf(next)).toEqual([]);
    expect(unanswerableOf(next)).toEqual([['elicitation/create', 'ambiguous']]);
    clock.advance(570_000);
    expect(session.questions.isCertain).toBe(true);
    send({ id: 'later', ...ELICITATION });
    await next.heard.until('asked');
    expect(questionsOf(next)).toEqual(['later']);
  });

  // Rule concurrent-5.
  test('counts as stopped once its open questions are answered', async () => {
    const ground = await stage();
    const { clock, start, session, send } = ground;
    const first = await start();
    send({ id: 'open', ...ELICITATION });
    await first.heard.until('asked');
    await first.exchange.cancel('the client left', {});
    first.exchange.abandon();
    expect(session.questions.isCertain).toBe(false);
    await first.exchange.respond(serverRequestId('open'), { result: { action: 'cancel' } }, {});
    expect(session.questions.isCertain).toBe(true);
    clock.advance(15_000);
    const next = await start();
    send({ id: 'q', ...ELICITATION });
    await settled(ground);
    expect(questionsOf(next)).toEqual(['q']);
  });

  test('cannot have asked anything once its late reply has come', async () => {
    const ground = await httpSseStage();
    const { start, send } = ground;
    const first = await start();
    first.exchange.abandon();
    const next = await start();
    send({ id: 'q', ...ELICITATION });
    await settled(ground);
    expect(questionsOf(next)).toEqual([]);
    first.finish();
    await next.heard.until('asked');
    expect(questionsOf(next)).toEqual(['q']);
  });

  test('has its questions declined while it is being cancelled, and no other call gets them', async () => {
    const ground = await stage();
    const { start, send, replied } = ground;
    const first = await start();
    await first.exchange.cancel('the client left', {});
    send({ id: 'q', ...ELICITATION });
    expect(await replied('q')).toEqual({ action: 'cancel' });
    expect(questionsOf(first)).toEqual([]);
  });
});
