/** A `fetch` that shows every JSON-RPC message that it sends and receives, and changes nothing. */
import { EventSourceParserStream } from 'eventsource-parser/stream';
import { isJsonObject, type JsonObject } from '../src/protocol/json.ts';

export interface Wire {
  sent(message: JsonObject): void;
  /** `ms` is the time since the request was sent. */
  received(message: JsonObject, how: { status: number; streamed: boolean; ms: number }): void;
}

/** Messages reach the wire before they reach the caller, so that what it does next is shown after them. */
export function watchedFetch(wire: Wire): typeof fetch {
  return async (url, init) => {
    const sentAt = performance.now();
    show(typeof init?.body === 'string' ? init.body : '', (message) => wire.sent(message));
    const response = await fetch(url, init);
    const { status, body } = response;
    const streamed = response.headers.get('content-type')?.startsWith('text/event-stream') === true;
    const received = (message: JsonObject) =>
      wire.received(message, { status, streamed, ms: performance.now() - sentAt });
    if (!streamed || body === null) {
      const text = await response.text();
      show(text, received);
      return new Response(text === '' ? null : text, response);
    }
    const [ours, theirs] = body.tee();
    void showEvents(ours, received);
    return new Response(theirs, response);
  };
}

async function showEvents(
  stream: ReadableStream<Uint8Array>,
  received: (message: JsonObject) => void,
): Promise<void> {
  const events = stream
    .pipeThrough(new TextDecoderStream())
    .pipeThrough(new EventSourceParserStream());
  for await (const { data } of events) show(data, received);
}

function show(text: string, to: (message: JsonObject) => void): void {
  if (text === '') return;
  const message: unknown = JSON.parse(text);
  if (isJsonObject(message)) to(message);
}
