/** How often a stream is tried that does not open. The timeouts of HTTP are those of its library, so the test plays them. */
import { describe, expect, test } from 'vitest';
import { upstreamRequestId } from '../../../../src/protocol/ids.ts';
import { UpstreamFailure, type UpstreamFailureCode } from '../../../../src/upstream/failure.ts';
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
  const http: Partial<HttpClient> = {
    send: (_request, reader) => {
      gets.push(reader);
      const exchange: Partial<HttpExchange> = { abort: () => {} };
      return exchange as HttpExchange;
    },
  };
  const stream = new ResumableStream(
    OF_A_CALL,
    {},
    {
      ...{ http: http as HttpClient, clock, hasSession: true, numbersEvents: true },
      headersFor: () => ({}),
      received: () => {},
      backlog: () => null,
      noteResumption: () => {},
    },
    { posted: () => 'none', notTaken: () => {}, disconnected: () => {} },
  );
  let end: 'open' | 'lost' | null = null;
  void stream.resume({ firstWaitMs: 0, onOpen: () => (end = 'open') }).catch(() => (end = 'lost'));
  /** The last GET fails, and what waits for the next one is over. */
  const fail = async (code: UpstreamFailureCode) => {
    gets.at(-1)?.failed(new UpstreamFailure(code, 'played', { mayHaveActed: false }));
    await settled();
    clock.advance(30_000);
    await settled();
  };
  return { gets, fail, end: () => end };
}

describe('a server that takes the GET, and sends nothing until the GET times out', () => {
  // Rule resumption-2.
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
