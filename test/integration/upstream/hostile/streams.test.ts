/** Servers whose event streams never end, never come to the point, or say too much. */
import type { ServerResponse } from 'node:http';
import { describe, expect, test } from 'vitest';
import { systemClock } from '../../../../src/lib/clock.ts';
import { callTool, type Exchanged } from '../../../fixtures/clients/modern-client.ts';
import {
  eventStream,
  json,
  type Answer,
  type Received,
} from '../../../fixtures/servers/scripted-server.ts';
import { hurriedClock } from '../../../fixtures/hurried-clock.ts';
import { advanceUntil, ManualClock, turnsUntil } from '../../../fixtures/manual-clock.ts';
import {
  callsOf,
  expectUnharmed,
  ground,
  openBoth,
  rawCall,
} from '../../../fixtures/gateways/survival-testbed.ts';

const LIMITS = {
  upstream: { maxBodyBytes: 20_000, maxEventBytes: 20_000, headersTimeoutMs: 2_000 },
  calls: { maxDurationMs: 7_000 },
  clock: hurriedClock(10),
};
/** How long a server may react to a cancellation before its stream is cut. */
const CANCEL_GRACE_MS = 2_000;
/** For what is to end by another limit than those on time, also where the first handshake is slow. */
const PATIENT = {
  ...LIMITS,
  upstream: { ...LIMITS.upstream, headersTimeoutMs: 60_000 },
  calls: { maxDurationMs: 600_000 },
};

const result = (id: unknown, text = 'done') => ({
  jsonrpc: '2.0',
  id,
  result: { content: [{ type: 'text', text }] },
});
const reasonOf = ({ response }: Exchanged): unknown =>
  response.error?.data?.reason ?? response.result?._meta?.['mrtr-gateway/reason'];
const textOf = ({ response }: Exchanged): unknown => response.result?.content?.[0]?.text;

type Stream = ReturnType<typeof eventStream>;

interface Endless {
  readonly script: Answer;
  readonly cut: Promise<void>;
  /** Resolves when so much more was sent. */
  flows(): Promise<void>;
}

/** Sends more and more until the gateway has had enough, and tells when it had. */
function endless(more: (stream: Stream, turn: number, received: Received) => void): Endless {
  const cut = Promise.withResolvers<void>();
  let turns = 0;
  const script: Answer = (received, response) => {
    response.once('close', () => cut.resolve());
    const stream = eventStream(response);
    const push = (turn: number) => {
      if (response.destroyed) return;
      more(stream, turn, received);
      turns += 1;
      if (response.writableNeedDrain) response.once('drain', () => push(turn + 1));
      else setImmediate(push, turn + 1);
    };
    push(0);
  };
  const flows = () => {
    const enough = turns + 100;
    return turnsUntil(() => turns >= enough);
  };
  return { script, cut: cut.promise, flows };
}

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

// Rule cancellation-3 (2025-11-25 lifecycle, "Timeouts"): A server may work on a call for `calls.maxDuration`
// (1 hour by default) while a client is attached. Then the server gets `notifications/cancelled`, its stream
// is cut after 2 seconds, and the client gets -32603 with `data.reason` `upstream_timeout`.
// Rule time-and-room-2 (cancellation, "Timeouts"): While a client waits, the server may work for
// `calls.maxDuration` (1 h by default); then the call is cancelled and the client gets error -32603 with
// `data.reason` `upstream_timeout`.
// Rule wire-5.
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
      'the answer is promised and never comes',
      (_received, response) => void response.writeHead(202).end(),
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

describe('responses', () => {
  // Rule wire-4 (2025-11-25 basic, "Responses"): The first response to a request counts. One with another id, or with
  // the id as another type, is a reply to nothing; one that comes after the call was cancelled is dropped.
  test('the first one counts, and others after it are ignored', async () => {
    const field = await ground(PATIENT, ({ body }, response) => {
      const stream = eventStream(response);
      stream.send(result(body.id, 'first'));
      stream.send(result(body.id, 'second'));
      stream.send({ jsonrpc: '2.0', id: body.id, error: { code: 1, message: 'third' } });
      stream.end();
    });
    const exchanged = await callTool(field.url, 'hostile');
    expect(textOf(exchanged)).toBe('first');
    expect(exchanged.notifications).toEqual([]);
    await expectUnharmed(field);
  });

  // Rule wire-7 (2025-11-25 transports, "Sending Messages to the Server"): A stream that goes on after the
  // response is cut after a second.
  test('one is enough, whatever the stream does afterwards', async () => {
    const { script, cut } = endless((stream, turn, { body }) => {
      if (turn === 0) stream.send(result(body.id));
      else stream.raw(`data: ${JSON.stringify(result(body.id, 'again'))}\n\n`);
    });
    const field = await ground(PATIENT, script);
    expect(textOf(await callTool(field.url, 'hostile'))).toBe('done');
    await cut;
    await expectUnharmed(field);
  });

  // Rule wire-4.
  test('one for another request is no reply to this one', async () => {
    const field = await ground(PATIENT, ({ body }, response) => {
      const stream = eventStream(response);
      for (const id of [body.id + 1, body.id - 1, String(body.id), -body.id, `${body.id}`]) {
        stream.send(result(id, 'another'));
      }
      stream.send(result(body.id, 'ours'));
      stream.end();
    });
    expect(textOf(await callTool(field.url, 'hostile'))).toBe('ours');
    await expectUnharmed(field);
  });

  // Rule wire-4.
  test('one that comes on the stream of another call does not reach that call', async () => {
    const ids: unknown[] = [];
    const responses: ServerResponse[] = [];
    const field = await ground(PATIENT, ({ body }, response) => {
      ids.push(body.id);
      responses.push(response);
      if (responses.length < 2) return;
      // Each session counts its own ids: what is right on one stream is right on the other too.
      const [first, second] = responses.map((open) => eventStream(open));
      first?.send(result(ids[0], 'one'));
      second?.send(result(ids[1], 'two'));
      first?.end();
      second?.end();
    });
    const one = callTool(field.url, 'hostile', { arguments: { which: 'one' } });
    await field.upstream.saw(({ body }) => body?.params?.arguments?.which === 'one');
    const two = callTool(field.url, 'hostile', { arguments: { which: 'two' } });
    expect([textOf(await one), textOf(await two)]).toEqual(['one', 'two']);
    await expectUnharmed(field);
  });

  // Rule leaving-4 (cancellation, "Timing Considerations"): What the server still sends for a cancelled call is
  // ignored.
  // Rules cancellation-1, wire-4.
  test('one that comes after the call was cancelled is dropped', async () => {
    const called = Promise.withResolvers<{ id: unknown; response: ServerResponse }>();
    const field = await ground(PATIENT, ({ body }, response) => {
      called.resolve({ id: body.id, response });
    });
    const { client } = await openBoth(field.url);
    client.write(rawCall({ tool: 'hostile' }));
    const { id, response } = await called.promise;
    client.destroy();
    await field.upstream.saw(({ body }) => body?.method === 'notifications/cancelled');
    json(response, 200, result(id, 'too late'));
    await field.gateway.log.saw('call.ended');
    await expectUnharmed(field);
  });
});

describe('a stream that has to be resumed', () => {
  /** Ends every stream of the call behind an event with an id. */
  const breaksOff: Answer = (_received, response) => {
    const stream = eventStream(response);
    stream.raw('id: event-1\nretry: 0\ndata:\n\n');
    stream.end();
  };

  // Rules streams-1, resumption-3.
  test('again and again is resumed at a bounded rate, for as long as a call may take', async () => {
    const inRealTime = { ...LIMITS, calls: { maxDurationMs: 700 }, clock: systemClock };
    const field = await ground(inRealTime, breaksOff, breaksOff);
    expect(reasonOf(await callTool(field.url, 'hostile'))).toBe('upstream_timeout');
    const resumed = field.upstream.received.filter(({ headers }) => 'last-event-id' in headers);
    // 100 ms at the least between two attempts, whatever the server says.
    expect(resumed.length).toBeGreaterThan(0);
    expect(resumed.length).toBeLessThanOrEqual(7);
    await field.gateway.log.saw('call.ended');
    await expectUnharmed(field);
  });

  // Rules streams-2, resumption-4.
  test.each<[string, Answer]>([
    ['HTML', (_r, response) => void response.writeHead(200, { 'content-type': 'text/html' }).end()],
    ['JSON', (_r, response) => json(response, 200, {})],
    ['a redirect', (_r, response) => void response.writeHead(307, { location: '/' }).end()],
    ['no content', (_r, response) => void response.writeHead(204).end()],
    ['a refusal', (_r, response) => void response.writeHead(403).end('{}')],
    [
      'compressed events',
      (_r, response) => void eventStream(response, { 'content-encoding': 'gzip' }),
    ],
  ])('and responds to that with %s has lost the call', async (_title, onResume) => {
    const field = await ground(PATIENT, breaksOff, onResume);
    expect(reasonOf(await callTool(field.url, 'hostile'))).toBe('call_lost');
    await expectUnharmed(field);
  });

  test.each([
    ['longer than a header may be', 'i'.repeat(2_000)],
    ['larger than an event may be', 'i'.repeat(50_000)],
  ])('behind an id that is %s is given up', async (_title, id) => {
    const field = await ground(PATIENT, (_received, response) => {
      const stream = eventStream(response);
      stream.raw(`id: ${id}\ndata:\n\n`);
      stream.end();
    });
    expect(reasonOf(await callTool(field.url, 'hostile'))).toBe('upstream_protocol_error');
    await expectUnharmed(field);
  });

  // Rule resumption-4: A call is lost when its stream had no ids, when the last id is not valid in a header,
  // when the server responds to the GET with anything but an event stream, or no longer knows the session.
  // What a client is told of a call that is lost is said in [parked-calls.md](parked-calls.md).
  test.each([
    ['a line break', 'a\rb'],
    ['letters beyond ASCII', 'über'],
    ['letters beyond Latin', '日本'],
    ['a tab and a bell', 'a\tb\u0007'],
    ['a DEL', 'a\u007fb'],
  ])('behind an id with %s ends in a clear error', async (_title, id) => {
    const field = await ground(
      LIMITS,
      (_received, response) => {
        const stream = eventStream(response);
        stream.raw(`id: ${id}\nretry: 0\ndata:\n\n`);
        stream.end();
      },
      (_received, response) => void response.writeHead(404).end(),
    );
    expect(reasonOf(await callTool(field.url, 'hostile'))).toBe('call_lost');
    await expectUnharmed(field);
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

test('a server that is gone in the middle of a call is served again when it is back', async () => {
  const field = await ground(PATIENT, (_received, response) => {
    eventStream(response);
    field.upstream.cut();
  });
  expect(reasonOf(await callTool(field.url, 'hostile'))).toBe('call_lost');
  expect(callsOf(field)).toBe(1);
  await expectUnharmed(field);
});
