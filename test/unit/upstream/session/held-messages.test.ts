import { expect, test } from 'vitest';
import { serverRequestId, upstreamRequestId } from '../../../../src/protocol/ids.ts';
import type { JsonRpcMessage } from '../../../../src/protocol/json-rpc.ts';
import { BroadcastDetector } from '../../../../src/upstream/discovery/broadcast-detector.ts';
import { replyTooLarge } from '../../../../src/upstream/size-limits.ts';
import { HeldMessages } from '../../../../src/upstream/session/incoming.ts';
import type { TransportListener } from '../../../../src/upstream/transport/transport.ts';
import { settled } from '../../../fixtures/calls-testbed.ts';
import { ManualClock } from '../../../fixtures/manual-clock.ts';
import { playedSession, playedTransport } from '../../../fixtures/played-session.ts';
import { Heard } from '../../../fixtures/servers/upstream-testbed.ts';

const SOURCE = { stream: 'standalone' } as const;
const ROOM = 8 * 1024 * 1024;

const log = (data: string): JsonRpcMessage => ({
  type: 'notification',
  method: 'notifications/message',
  params: { data },
});
const result = (text: string): JsonRpcMessage => ({
  type: 'response',
  id: upstreamRequestId(1),
  reply: { result: { text } },
});

/** Takes all that is held. */
function takeAll(held: HeldMessages) {
  const messages = [];
  for (let next = held.take(); next !== undefined; next = held.take()) messages.push(next.message);
  return messages;
}

test('each question of a server that may broadcast waits for a check of its own', async () => {
  const checks: PromiseWithResolvers<void>[] = [];
  const checkQuestion = () => {
    const check = Promise.withResolvers<void>();
    checks.push(check);
    return check.promise;
  };
  const listeners: TransportListener[] = [];
  const connect = (listener: TransportListener) => {
    listeners.push(listener);
    return playedTransport({ kind: 'http-sse' });
  };
  const detector = new BroadcastDetector({ now: () => 0, hasSiblings: false });
  const session = playedSession(connect, detector, new ManualClock(), { checkQuestion });
  const heard = new Heard();
  session.call('tools/call', () => ({}), heard, {});
  const ask = (id: string): JsonRpcMessage => ({
    type: 'request',
    id: serverRequestId(id),
    method: 'elicitation/create',
    params: {},
  });
  for (const message of [ask('one'), ask('two')]) listeners[0]?.message(message, SOURCE);
  checks[0]?.resolve();
  await settled();
  expect(heard.events.map(([, what]) => what)).toEqual(['one']);
  checks[1]?.resolve();
  await settled();
  expect(heard.events.map(([, what]) => what)).toEqual(['one', 'two']);
  await session.close();
});

test('messages that wait keep their order', () => {
  const held = new HeldMessages();
  for (const message of [log('one'), result('two'), log('three')]) held.add(message, SOURCE);
  expect(takeAll(held)).toEqual([log('one'), result('two'), log('three')]);
  expect(takeAll(held)).toEqual([]);
});

test('a reply that was too large keeps its place among them', () => {
  const held = new HeldMessages();
  const failure = replyTooLarge(
    'an event is too large',
    'upstream.maxEvent is 1 MiB, and it has more',
  );
  const dropped = { type: 'response', id: upstreamRequestId(1), reply: failure } as const;
  for (const message of [log('one'), dropped, log('two')]) held.add(message, SOURCE);
  expect(takeAll(held)).toEqual([log('one'), dropped, log('two')]);
});

test('a reply that is larger than the limit is held, and so is what came before it', () => {
  const held = new HeldMessages();
  expect(held.add(log('x'), SOURCE)).toBe(true);
  expect(held.add(result('y'.repeat(2 * ROOM)), SOURCE)).toBe(true);
  expect(takeAll(held)).toHaveLength(2);
});

test('once the limit in bytes is exceeded, notifications are dropped, and a reply is refused', () => {
  const held = new HeldMessages();
  expect(held.add(log('x'.repeat(ROOM)), SOURCE)).toBe(true);
  expect(held.add(log('y'.repeat(2_000)), SOURCE)).toBe(true);
  expect(held.add(result('z'.repeat(2_000)), SOURCE)).toBe(false);
  expect(takeAll(held)).toHaveLength(1);
});

test('notifications beyond the limit in number are dropped, and a reply is kept', () => {
  const held = new HeldMessages();
  for (let times = 0; times < 1_000; times += 1) held.add(log('x'), SOURCE);
  expect(held.add(result('the result'), SOURCE)).toBe(true);
  const kept = takeAll(held);
  expect(kept).toHaveLength(257);
  expect(kept.at(-1)).toEqual(result('the result'));
});
