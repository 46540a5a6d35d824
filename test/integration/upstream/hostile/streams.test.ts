/** Servers whose event streams say too much, or break off again and again. */
import type { ServerResponse } from 'node:http';
import { describe, expect, test } from 'vitest';
import { systemClock } from '../../../../src/lib/clock.ts';
import { callTool } from '../../../fixtures/clients/modern-client.ts';
import { eventStream, json, type Answer } from '../../../fixtures/servers/scripted-server.ts';
import {
  callsOf,
  expectUnharmed,
  ground,
  openBoth,
  rawCall,
} from '../../../fixtures/gateways/survival-testbed.ts';
import { reasonOf } from '../../../fixtures/gateways/replica-testbed.ts';
import { textOf } from '../../../fixtures/wire/asked-calls.ts';
import { endless, LIMITS, PATIENT, result } from '../../../fixtures/failures/endless-answers.ts';

describe('responses', () => {
  // Rule wire-4 (2025-11-25 basic, "Responses"): The first response to a request counts. Another one, or one whose id
  // has another type, is dropped.
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

  // Rule wire-7 (2025-11-25 transports, "Sending Messages to the Server"): A stream that goes on after the response
  // is cut after 1 s.
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

  // Rules resumption-1, resumption-3.
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

  // Rule resumption-4.
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

  // Rule resumption-4: A call is lost if its stream has no event ids, if the server refuses to resume it, or ends it
  // at once ten times in a row and for 30 s.
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

test('a server that is gone in the middle of a call is served again when it is back', async () => {
  const field = await ground(PATIENT, (_received, response) => {
    eventStream(response);
    field.upstream.cut();
  });
  expect(reasonOf(await callTool(field.url, 'hostile'))).toBe('call_lost');
  expect(callsOf(field)).toBe(1);
  await expectUnharmed(field);
});
