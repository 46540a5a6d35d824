/** Servers whose event streams never end, or never come to the point. */
import { describe, expect, test } from 'vitest';
import { callTool } from '../../../fixtures/clients/modern-client.ts';
import {
  eventStream,
  type Answer,
  type Received,
} from '../../../fixtures/servers/scripted-server.ts';
import { advanceUntil, ManualClock, turnsUntil } from '../../../fixtures/manual-clock.ts';
import { expectUnharmed, ground } from '../../../fixtures/gateways/survival-testbed.ts';
import { reasonOf } from '../../../fixtures/gateways/replica-testbed.ts';
import { textOf } from '../../../fixtures/wire/asked-calls.ts';
import {
  type Endless,
  endless,
  LIMITS,
  PATIENT,
  result,
  type Stream,
} from '../../../fixtures/failures/endless-answers.ts';

/** How long a server may react to a cancellation before its stream is cut. */
const CANCEL_GRACE_MS = 2_000;

/** Resolves when sockets had time to bring what was sent. */
function settles(): Promise<void> {
  let turns = 0;
  return turnsUntil(() => (turns += 1) > 100);
}

/**
 * Asserts that a call without a reply ends with the time that it may take, and is cut when the server had time to react.
 * @param stream what the server sends; `flows` resolves when more of it has come, which gives the call no more time
 */
async function expectEndInTime({
  script,
  cut = Promise.resolve(),
  flows = settles,
}: Pick<Endless, 'script'> & Partial<Endless>): Promise<void> {
  const clock = new ManualClock();
  const field = await ground({ ...LIMITS, clock }, script);
  const called = callTool(field.url, 'hostile');
  await field.upstream.saw(({ body }) => body?.params?.name === 'hostile');
  await flows();
  clock.advance(LIMITS.calls.maxDurationMs - 1);
  await flows();
  expect(field.upstream.methods()).not.toContain('notifications/cancelled');
  clock.advance(1);
  expect(reasonOf(await called)).toBe('upstream_timeout');
  await field.upstream.saw(({ body }) => body?.method === 'notifications/cancelled');
  clock.advance(CANCEL_GRACE_MS);
  await field.gateway.log.saw('call.ended');
  await cut;
  await advanceUntil(clock, expectUnharmed(field));
}

// Rule limits-3.
describe('an event that never ends is cut at the limit', () => {
  const filler = 'x'.repeat(1_000);
  test.each<[string, (turn: number) => string]>([
    ['in one line', (turn) => (turn === 0 ? 'data: ' : filler)],
    ['in many lines', () => `data: ${filler}\n`],
    ['in a million short lines', () => 'data:\n'.repeat(500)],
    ['in its id', (turn) => (turn === 0 ? 'id: ' : filler)],
    ['in its name', (turn) => (turn === 0 ? 'event: ' : filler)],
  ])('%s', async (_title, text) => {
    const { script, cut } = endless((stream, turn) => stream.raw(text(turn)));
    const field = await ground(PATIENT, script);
    expect(reasonOf(await callTool(field.url, 'hostile'))).toBe('upstream_protocol_error');
    await cut;
    await expectUnharmed(field);
  });
});

// Rule cancellation-3 (2025-11-25 lifecycle, "Timeouts"): A server can work for `calls.maxDuration` (1 h by default)
// while a client waits. Then the call is cancelled, with -32603 and `data.reason` `upstream_timeout`.
describe('a stream that goes on without a reply ends with the time that a call may take', () => {
  const notify = (method: string, params: object) => ({ jsonrpc: '2.0', method, params });
  test.each<[string, (stream: Stream, turn: number, received: Received) => void]>([
    ['of one comment', (stream) => stream.raw(`: ${'x'.repeat(1_000)}`)],
    ['of one field that nobody knows', (stream) => stream.raw(`odd: ${'x'.repeat(1_000)}`)],
    ['of comments', (stream) => stream.raw(': still here\n\n')],
    ['of empty lines', (stream) => stream.raw('\n\n\n\n')],
    ['of names without data', (stream) => stream.raw('event: message\n\n')],
    ['of events that nobody knows', (stream) => stream.raw('event: odd\ndata: {"a":1}\n\n')],
    ['of reconnection times', (stream) => stream.raw('retry: 99999999999999999999\n\n')],
    ['of responses to others', (stream) => stream.send(result(999_999))],
    ['of messages that are none', (stream) => stream.send({ odd: true })],
    ['of empty batches', (stream) => stream.send([])],
    ['of notifications that nobody knows', (stream) => stream.send(notify('odd/odd', {}))],
    [
      'of progress of another call',
      (stream, turn) =>
        stream.send(notify('notifications/progress', { progressToken: 'odd', progress: turn })),
    ],
    [
      'of questions taken back that were never asked',
      (stream, turn) => stream.send(notify('notifications/cancelled', { requestId: turn })),
    ],
    [
      'of logs',
      (stream) => stream.send(notify('notifications/message', { level: 'info', data: 'x' })),
    ],
  ])('%s', async (_title, more) => {
    await expectEndInTime(endless(more));
  });

  test.each<[string, Answer]>([
    ['nothing is sent', () => {}],
    ['the stream is silent', (_received, response) => void eventStream(response)],
    [
      'the body stops in the middle',
      (_received, response) =>
        void response.writeHead(200, { 'content-type': 'application/json' }).write('{"json'),
    ],
    [
      'interim answers come for ever',
      (_received, response) => {
        const push = () => {
          if (response.destroyed) return;
          response.writeProcessing();
          setImmediate(push);
        };
        push();
      },
    ],
  ])('also when %s', async (_title, script) => {
    await expectEndInTime({ script });
  });
});

describe('questions', () => {
  const question = (id: unknown, more: object = {}) => ({
    jsonrpc: '2.0',
    id,
    method: 'elicitation/create',
    params: { message: 'm', requestedSchema: { type: 'object', properties: {} }, ...more },
  });

  test('without end still make a round, and go with the call', async () => {
    const { script, cut } = endless((stream, turn) => stream.send(question(`q${turn}`)));
    const field = await ground(PATIENT, script);
    const { response } = await callTool(field.url, 'hostile');
    expect(response.result.resultType).toBe('input_required');
    expect(Object.keys(response.result.inputRequests).length).toBeGreaterThan(0);
    await field.gateway.drain();
    expect(field.gateway.log.named('gateway.draining')).toEqual([{ running: 0, parked: 1 }]);
    await cut;
  });

  test('of pings without end get their replies, and end with the call', async () => {
    const pings = endless((stream, turn) => {
      if (turn < 200) stream.send({ jsonrpc: '2.0', id: `p${turn}`, method: 'ping' });
      else stream.raw(':\n\n');
    });
    await expectEndInTime(pings);
  });

  test('that nobody knows are refused towards the server only', async () => {
    const field = await ground(PATIENT, ({ body }, response) => {
      const stream = eventStream(response);
      stream.send({ jsonrpc: '2.0', id: 'odd', method: 'odd/method', params: {} });
      stream.send(result(body.id));
      stream.end();
    });
    const exchanged = await callTool(field.url, 'hostile');
    expect(textOf(exchanged)).toBe('done');
    const answer = await field.upstream.saw(({ body }) => body?.id === 'odd');
    expect(answer.body.error.code).toBe(-32601);
    await expectUnharmed(field);
  });
});
