/**
 * The reader of event streams: whatever bytes a server sends, it reads the same events wherever they are cut, those that the
 * standard reads (HTML, "Interpreting an event stream"), and fails in no other way than by a failure of the server.
 */
import { UNBOUNDED } from '../../../src/upstream/size-limits.ts';
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { EventStreamBody } from '../../../src/upstream/http/bodies.ts';
import { UpstreamFailure } from '../../../src/model/upstream-failure.ts';
import { cutAt, cuts } from '../mutations.ts';
import { target } from '../target.ts';

const FIELDS = ['data: a', 'data:b', 'data', 'data: {"a":1}', 'id: 1', 'id:', 'id: a\0b', 'id'];
const OTHERS = ['event: message', 'event: endpoint', 'event:', 'retry: 10', 'retry: 1e3', 'retry'];
const LINE_ENDS = ['\n', '\r', '\r\n', '\n\n', '\r\n\r\n', '\r\r'];
const ODD = [': comment', ':', 'odd: 1', ' data: x', 'Data: x', '\uFEFF', 'data: \uFEFFx', '', ' '];

const fragment = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom(...LINE_ENDS) },
  { weight: 4, arbitrary: fc.constantFrom(...FIELDS, ...OTHERS, ...ODD) },
  { weight: 1, arbitrary: fc.string({ unit: 'grapheme', maxLength: 5 }) },
);
const texts = fc.array(fragment, { maxLength: 30 }).map((parts) => Buffer.from(parts.join('')));
const noise = fc.uint8Array({ maxLength: 20 }).map((bytes) => Buffer.from(bytes));
const bytes = fc.oneof(
  { weight: 4, arbitrary: texts },
  { weight: 1, arbitrary: fc.tuple(texts, noise, texts).map((parts) => Buffer.concat(parts)) },
);

interface Heard {
  readonly events: readonly (readonly [event: string, data: string, id: string | undefined])[];
  readonly retries: readonly number[];
  /** The message of the failure; empty if there was none. */
  readonly failure: string;
}

const SMALL_EVENT_BYTES = 24;
const LARGE_EVENT_BYTES = 1024 * 1024;

export const eventStream = target('event-stream', 1_000, () => ({
  inputs: fc.record({ bytes, cuts, isSmall: fc.boolean() }),
  check(input) {
    const limit = input.isSmall ? SMALL_EVENT_BYTES : LARGE_EVENT_BYTES;
    const whole = heard([input.bytes], limit);
    assert.deepEqual(heard(cutAt(input.bytes, input.cuts), limit), whole, 'cut otherwise');
    for (const [, data] of whole.events) assert(Buffer.byteLength(data) <= limit, 'too large');
    // Within the limit nothing can be too large.
    if (Buffer.byteLength(input.bytes.toString('utf8')) <= limit)
      assert.deepEqual(whole, interpreted(input.bytes), 'the standard');
  },
  stop: async () => {},
}));

function heard(chunks: readonly Buffer[], limit: number): Heard {
  const events: Heard['events'][number][] = [];
  const retries: number[] = [];
  const body = new EventStreamBody(limit, UNBOUNDED, {
    event: ({ event, data, id }) => void events.push([event, data, id]),
    retryAfter: (waitMs) => void retries.push(waitMs),
  });
  try {
    for (const chunk of chunks) body.write(chunk);
    body.end();
  } catch (error) {
    assert(error instanceof UpstreamFailure, `another failure: ${String(error)}`);
    // What else was in the chunk that brought the failure counts for nothing.
    return { events, retries: [], failure: error.message };
  }
  return { events, retries, failure: '' };
}

/** Reads as the standard says, but for what is not asked here: an id counts for its own event, and a wait has bounds. */
function interpreted(content: Buffer): Heard {
  const text = new TextDecoder('utf-8').decode(content);
  // The last line has not ended.
  const lines = text.split(/\r\n|\n|\r/).slice(0, -1);
  const events: Heard['events'][number][] = [];
  const retries: number[] = [];
  let [event, id, data] = ['', undefined as string | undefined, [] as string[]];
  for (const line of lines) {
    if (line === '') {
      if (data.length > 0) events.push([event === '' ? 'message' : event, data.join('\n'), id]);
      else if (id !== undefined) events.push(['message', '', id]);
      [event, id, data] = ['', undefined, []];
      continue;
    }
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'data') data.push(value);
    else if (field === 'event') event = value;
    else if (field === 'id' && !value.includes('\0')) id = value;
    else if (field === 'retry' && /^\d+$/.test(value)) {
      retries.push(Math.min(Math.max(Number(value), 100), 30_000));
    }
  }
  return { events, retries, failure: '' };
}
