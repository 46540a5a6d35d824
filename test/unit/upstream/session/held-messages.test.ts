import { expect, test } from 'vitest';
import { upstreamRequestId } from '../../../../src/protocol/ids.ts';
import type { JsonRpcMessage } from '../../../../src/protocol/json-rpc.ts';
import { replyTooLarge } from '../../../../src/upstream/discarded-message.ts';
import { HeldMessages } from '../../../../src/upstream/session/incoming.ts';

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

test('messages that wait keep their order', () => {
  const held = new HeldMessages();
  for (const message of [log('one'), result('two'), log('three')]) held.add(message, SOURCE);
  expect(held.takeAll().map(([message]) => message)).toEqual([
    log('one'),
    result('two'),
    log('three'),
  ]);
  expect(held.takeAll()).toEqual([]);
});

test('a reply that was too large keeps its place among them', () => {
  const held = new HeldMessages();
  const failure = replyTooLarge('an event is too large');
  const dropped = { type: 'dropped-reply', id: upstreamRequestId(1), failure } as const;
  for (const message of [log('one'), dropped, log('two')]) held.add(message, SOURCE);
  expect(held.takeAll().map(([message]) => message)).toEqual([log('one'), dropped, log('two')]);
});

test('notifications beyond the limit in bytes are dropped, and a reply beyond it is refused', () => {
  const held = new HeldMessages();
  expect(held.add(log('x'.repeat(ROOM - 1_000)), SOURCE)).toBe(true);
  expect(held.add(log('y'.repeat(2_000)), SOURCE)).toBe(true);
  expect(held.add(result('z'.repeat(2_000)), SOURCE)).toBe(false);
  expect(held.takeAll()).toHaveLength(1);
});

test('notifications beyond the limit in number are dropped, and a reply is kept', () => {
  const held = new HeldMessages();
  for (let times = 0; times < 1_000; times += 1) held.add(log('x'), SOURCE);
  expect(held.add(result('the result'), SOURCE)).toBe(true);
  const kept = held.takeAll();
  expect(kept).toHaveLength(257);
  expect(kept.at(-1)?.[0]).toEqual(result('the result'));
});
