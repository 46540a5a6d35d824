/** How often a stream is tried that does not open, and which events are acknowledged. The timeouts of HTTP are those of its library. */
import { describe, expect, test } from 'vitest';
import { upstreamRequestId } from '../../../../src/protocol/ids.ts';
import type { JsonValue } from '../../../../src/protocol/json.ts';
import {
  UpstreamFailure,
  type UpstreamFailureCode,
} from '../../../../src/model/upstream-failure.ts';
import type { HttpClient } from '../../../../src/upstream/http/client.ts';
import type { HttpExchange, ResponseReader } from '../../../../src/upstream/http/http-exchange.ts';
import { ResumableStream } from '../../../../src/upstream/transport/resumable-stream.ts';
import type { MessageSource } from '../../../../src/upstream/transport/transport.ts';
import { settled } from '../../../fixtures/calls-testbed.ts';
import { ManualClock } from '../../../fixtures/manual-clock.ts';

const OF_A_CALL: MessageSource = { stream: 'request', id: upstreamRequestId(7) };
const HEAD = { status: 200, headers: {}, mediaType: 'text/event-stream' };

/** A stream that is being resumed, whose GETs the test answers. */
function resuming() {
  const clock = new ManualClock();
  const gets: ResponseReader[] = [];
  const taken: JsonValue[] = [];
  let isBehind = (): Promise<void> | null => null;
  const http: Partial<HttpClient> = {
    send: (_request, reader) => {
      gets.push(reader);
      const exchange: Partial<HttpExchange> = {
        abort: () => {},
        pause: () => {},
        resume: () => {},
      };
      return exchange as HttpExchange;
    },
  };
  const stream = new ResumableStream(
    OF_A_CALL,
    {},
    {
      ...{ http: http as HttpClient, clock, hasSession: true, numbersEvents: true },
      headersFor: () => ({}),
      received: (_stream, message) => taken.push(message),
      backlog: () => isBehind(),
      noteResumption: () => {},
    },
    { posted: () => 'none', notTaken: () => {}, disconnected: () => {} },
  );
  let end: 'open' | 'lost' | null = null;
  void stream.resume({ firstWaitMs: 0, onOpen: () => (end = 'open') }).catch(() => (end = 'lost'));
  /** The last GET fails, and what waits for the next one is over. */
  const fail = async (code: UpstreamFailureCode) => {
    if (code === 'upstream_timeout') gets.at(-1)?.sent?.();
    gets.at(-1)?.failed(new UpstreamFailure(code, 'played', { mayHaveActed: false }));
    await settled();
    clock.advance(30_000);
    await settled();
  };
  /** The client is behind after it has taken so many more messages, until it is told to go on. */
  const behindAfter = (more: number) => {
    const goesOn = Promise.withResolvers<void>();
    const takenThen = taken.length + more;
    isBehind = () => (taken.length >= takenThen ? goesOn.promise : null);
    return async () => {
      isBehind = () => null;
      goesOn.resolve();
      await settled();
    };
  };
  return { stream, gets, fail, end: () => end, taken, behindAfter };
}

describe('a server that takes the GET, and sends nothing until the GET times out', () => {
  test('has lost no call, however long its user thinks', async () => {
    const { gets, fail, end } = resuming();
    for (let times = 0; times < 60; times += 1) await fail('upstream_timeout');
    expect([gets.length, end()]).toEqual([61, null]);
    gets.at(-1)?.head(HEAD);
    await settled();
    expect(end()).toBe('open');
  });

  // Rule resumption-3.
  test('has five tries from then on if it cannot be reached', async () => {
    const { gets, fail, end } = resuming();
    for (let times = 0; times < 10; times += 1) await fail('upstream_timeout');
    for (let times = 0; times < 5; times += 1) await fail('upstream_unavailable');
    expect([gets.length, end()]).toEqual([15, 'lost']);
  });
});

describe('an event is acknowledged', () => {
  /** A stream that is open, behind the event 1. */
  async function opened() {
    const played = resuming();
    const [reader] = played.gets;
    reader?.head(HEAD);
    await settled();
    const event = (id: string, data: JsonValue) =>
      reader?.event?.({ event: 'message', data: JSON.stringify(data), id });
    event('1', 'first');
    return { ...played, event };
  }

  // Rule resumption-1.
  test('once its message is taken', async () => {
    const { stream } = await opened();
    expect(stream.lastEventId).toBe('1');
  });

  // Rule resumption-1.
  test('not before the client takes its message', async () => {
    const { stream, event, behindAfter, taken } = await opened();
    const goOn = behindAfter(0);
    event('2', 'second');
    expect([stream.lastEventId, taken]).toEqual(['1', ['first']]);
    await goOn();
    expect([stream.lastEventId, taken]).toEqual(['2', ['first', 'second']]);
  });

  // Rule resumption-1.
  test('not before the client takes the last message of a batch', async () => {
    const { stream, event, behindAfter, taken } = await opened();
    const goOn = behindAfter(2);
    event('2', ['second', 'third', 'fourth']);
    expect([stream.lastEventId, taken]).toEqual(['1', ['first', 'second', 'third']]);
    await goOn();
    expect([stream.lastEventId, taken]).toEqual(['2', ['first', 'second', 'third', 'fourth']]);
  });

  // Rule resumption-1.
  test('never, if the stream is closed before its message is taken', async () => {
    const { stream, event, behindAfter, taken } = await opened();
    const goOn = behindAfter(0);
    event('2', 'second');
    stream.abort();
    await goOn();
    expect([stream.lastEventId, taken]).toEqual(['1', ['first']]);
  });

  // Rule resumption-1.
  test.each([
    ['an empty batch', []],
    ['no data', null],
  ])('at once, if it has %s', async (_what, data) => {
    const { stream, gets, event, behindAfter } = await opened();
    behindAfter(0);
    if (data !== null) event('2', data);
    else gets[0]?.event?.({ event: 'message', data: '', id: '2' });
    expect(stream.lastEventId).toBe('2');
  });
});
