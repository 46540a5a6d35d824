/** What a server can send in place of the reply to a call, and what its client is told. */
import { describe, expect, test } from 'vitest';
import { accept, callTool } from '../../../fixtures/clients/modern-client.ts';
import { hurriedClock } from '../../../fixtures/hurried-clock.ts';
import { expectUnharmed, ground } from '../../../fixtures/gateways/survival-testbed.ts';
import { reasonOf } from '../../../fixtures/gateways/replica-testbed.ts';
import { eventStream, type Answer } from '../../../fixtures/servers/scripted-server.ts';

/** A call without any reply ends with its time. */
const LIMITS = { calls: { maxDurationMs: 20_000 }, clock: hurriedClock(10) };

const JSON_TYPE = { 'content-type': 'application/json' };
const EVENTS = { 'content-type': 'text/event-stream' };

const notification = { jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info' } };
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

// Rules failures-5, failures-6, wire-5.
describe('in place of a reply', () => {
  test.each<[reason: string, what: string, Answer]>([
    [
      'upstream_protocol_error',
      'another media type',
      sends(200, { 'content-type': 'text/html' }, ''),
    ],
    ['upstream_protocol_error', 'nothing, of no type', sends(200, {}, '')],
    ['upstream_protocol_error', 'no content', sends(204, {}, '')],
    ['upstream_protocol_error', 'nothing, as JSON', sends(200, JSON_TYPE, '')],
    ['upstream_protocol_error', 'JSON that does not parse', sends(200, JSON_TYPE, '{"jsonrpc":')],
    ['upstream_protocol_error', 'JSON that is not JSON-RPC', sends(200, JSON_TYPE, '{"ok":true}')],
    ['upstream_protocol_error', 'no message', sends(200, JSON_TYPE, '[]')],
    [
      'upstream_protocol_error',
      'a notification',
      sends(200, JSON_TYPE, JSON.stringify(notification)),
    ],
    [
      'upstream_protocol_error',
      'a reply to another id',
      sends(200, JSON_TYPE, (id) => JSON.stringify(replyTo(id + 1))),
    ],
    [
      'upstream_protocol_error',
      'an event that does not parse',
      sends(200, EVENTS, 'data: {"jsonrpc":\n\n'),
    ],
    [
      'upstream_protocol_error',
      'an event that is not JSON-RPC',
      sends(200, EVENTS, eventOf({ ok: true })),
    ],
    [
      'upstream_protocol_error',
      'an event with a reply to another id',
      sends(200, EVENTS, (id) => eventOf(replyTo(id + 1))),
    ],
    ['upstream_protocol_error', 'an event without messages', sends(200, EVENTS, eventOf([]))],
    ['call_lost', 'no event', sends(200, EVENTS, '')],
    ['call_lost', 'other events', sends(200, EVENTS, eventOf(notification))],
    [
      'call_lost',
      'an event that is not JSON-RPC, and other events after it',
      sends(200, EVENTS, eventOf({ ok: true }) + eventOf(notification)),
    ],
    ['call_lost', 'half an event', sends(200, EVENTS, 'data: {"jsonrpc":')],
    ['call_lost', 'half of the JSON', breaksOff(JSON_TYPE, '{"jsonrpc":')],
    ['call_lost', 'events, and no end', breaksOff(EVENTS, eventOf(notification))],
    [
      'call_lost',
      'an event that is not JSON-RPC, and no end',
      breaksOff(EVENTS, eventOf({ ok: true })),
    ],
    ['call_lost', 'the promise of a reply (202)', sends(202, {}, '')],
  ])('%s: %s', async (reason, _what, answer) => {
    const field = await ground(LIMITS, answer);
    const exchanged = await callTool(field.url, 'hostile');
    expect(reasonOf(exchanged)).toBe(reason);
    await field.gateway.log.saw('call.ended');
    await expectUnharmed(field);
  });
});

// Rule failures-5.
test('a malformed message of the server, sent while its client is disconnected, is reported on the next retry', async () => {
  const streams: ReturnType<typeof eventStream>[] = [];
  const field = await ground(LIMITS, (_received, response) => {
    const stream = eventStream(response);
    streams.push(stream);
    const requestedSchema = { type: 'object', properties: { name: { type: 'string' } } };
    const params = { message: 'Who?', requestedSchema };
    stream.send({ jsonrpc: '2.0', id: 'q', method: 'elicitation/create', params });
  });
  const { result } = (await callTool(field.url, 'hostile')).response;
  streams[0]?.raw('data: {"jsonrpc":\n\n');
  await field.gateway.log.saw('call.result_ready');
  const [key = ''] = Object.keys(result.inputRequests);
  const inputResponses = { [key]: accept({ name: 'Ada' }) };
  const retry = { requestState: result.requestState, inputResponses };
  const { response } = await callTool(field.url, 'hostile', retry);
  expect(response.error.data).toMatchObject({
    reason: 'upstream_protocol_error',
    mayHaveActed: 'yes',
  });
  expect(streams).toHaveLength(1);
  await expectUnharmed(field);
});

// Rule failures-5.
test('a malformed message of the server does not end a call whose reply comes', async () => {
  const field = await ground(LIMITS, ({ body: { id } }, response) => {
    const stream = eventStream(response);
    stream.raw(eventOf({ ok: true }));
    stream.send(replyTo(id));
    stream.end();
  });
  const { response } = await callTool(field.url, 'hostile');
  expect(response.result).toMatchObject({ resultType: 'complete', content: [] });
  await expectUnharmed(field);
});

// Rules failures-5, failures-6.
test('a server that sends no replies counts as up, and one that breaks connections does not', async () => {
  const answers = [
    sends(200, JSON_TYPE, '{"ok":true}'),
    breaksOff(JSON_TYPE, '{"jsonrpc":'),
  ] as const;
  const failures = [];
  for (const answer of answers) {
    const field = await ground(LIMITS, answer);
    await callTool(field.url, 'hostile');
    failures.push(...field.gateway.log.named('upstream.failed').map(({ code }) => code));
  }
  expect(failures).toEqual(['upstream_protocol_error', 'upstream_unavailable']);
});
