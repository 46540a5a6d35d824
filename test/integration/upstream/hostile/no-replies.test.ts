/** What a server can send in place of the reply to a call, and what its client is told. */
import { describe, expect, test } from 'vitest';
import { callTool } from '../../../fixtures/clients/modern-client.ts';
import { hurriedClock } from '../../../fixtures/hurried-clock.ts';
import { expectUnharmed, ground } from '../../../fixtures/gateways/survival-testbed.ts';
import { reasonOf } from '../../../fixtures/gateways/replica-testbed.ts';
import type { Answer } from '../../../fixtures/servers/scripted-server.ts';

/** A call without any reply ends with its time. */
const LIMITS = { calls: { maxDurationMs: 20_000 }, clock: hurriedClock(10) };

const JSON_TYPE = { 'content-type': 'application/json' };
const EVENTS = { 'content-type': 'text/event-stream' };

const progress = { jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info' } };
const replyTo = (id: unknown) => ({ jsonrpc: '2.0', id, result: { content: [] } });
const eventOf = (message: unknown) => `data: ${JSON.stringify(message)}\n\n`;

/** Sends a whole response. */
const sends = (
  status: number,
  headers: Record<string, string>,
  body: string | ((id: number) => string),
) =>
  (({ body: { id } }, response) =>
    void response
      .writeHead(status, headers)
      .end(typeof body === 'string' ? body : body(Number(id)))) satisfies Answer;

/** Sends the beginning of a response, and breaks the connection. */
const breaksOff =
  (headers: Record<string, string>, beginning: string): Answer =>
  (_received, response) => {
    response.writeHead(200, headers);
    response.write(beginning, () => response.socket?.end());
  };

describe('in place of a reply', () => {
  test.each<[reason: string, what: string, Answer]>([
    [
      'upstream_protocol_error',
      'another media type',
      sends(200, { 'content-type': 'text/html' }, ''),
    ],
    ['upstream_protocol_error', 'nothing, of no type', sends(200, {}, '')],
    ['upstream_protocol_error', 'no content', sends(204, {}, '')],
    ['call_lost', 'nothing, as JSON', sends(200, JSON_TYPE, '')],
    ['call_lost', 'JSON that does not parse', sends(200, JSON_TYPE, '{"jsonrpc":')],
    ['call_lost', 'JSON that is no JSON-RPC', sends(200, JSON_TYPE, '{"ok":true}')],
    ['call_lost', 'no message', sends(200, JSON_TYPE, '[]')],
    ['call_lost', 'a notification', sends(200, JSON_TYPE, JSON.stringify(progress))],
    [
      'call_lost',
      'a reply to another id',
      sends(200, JSON_TYPE, (id) => JSON.stringify(replyTo(id + 1))),
    ],
    ['call_lost', 'an event that does not parse', sends(200, EVENTS, 'data: {"jsonrpc":\n\n')],
    ['call_lost', 'an event that is no JSON-RPC', sends(200, EVENTS, eventOf({ ok: true }))],
    [
      'call_lost',
      'an event with a reply to another id',
      sends(200, EVENTS, (id) => eventOf(replyTo(id + 1))),
    ],
    ['call_lost', 'no event', sends(200, EVENTS, '')],
    ['call_lost', 'other events', sends(200, EVENTS, eventOf(progress))],
    ['call_lost', 'half an event', sends(200, EVENTS, 'data: {"jsonrpc":')],
    ['call_lost', 'half of the JSON', breaksOff(JSON_TYPE, '{"jsonrpc":')],
    ['call_lost', 'events, and no end', breaksOff(EVENTS, eventOf(progress))],
    [
      'call_lost',
      'an event that is no JSON-RPC, and no end',
      breaksOff(EVENTS, eventOf({ ok: true })),
    ],
    ['upstream_timeout', 'the promise of a reply (202)', sends(202, {}, '')],
  ])('%s: %s', async (reason, _what, answer) => {
    const field = await ground(LIMITS, answer);
    const exchanged = await callTool(field.url, 'hostile');
    expect(reasonOf(exchanged)).toBe(reason);
    await field.gateway.log.saw('call.ended');
    await expectUnharmed(field);
  });
});
