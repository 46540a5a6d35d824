/** A `fetch` that shows every JSON-RPC message that it sends and receives, and changes nothing. */
import { createParser } from 'eventsource-parser';
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
    const watched = body.pipeThrough(showEvents(received));
    return new Response(watched, response);
  };
}

/** Shows the events of a stream before it passes them on. */
function showEvents(received: (message: JsonObject) => void) {
  const decoder = new TextDecoder();
  const parser = createParser({ onEvent: ({ data }) => show(data, received) });
  return new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
    transform(chunk, controller) {
      parser.feed(decoder.decode(chunk, { stream: true }));
      controller.enqueue(chunk);
    },
  });
}

function show(text: string, to: (message: JsonObject) => void): void {
  if (text === '') return;
  const message: unknown = JSON.parse(text);
  if (isJsonObject(message)) to(message);
}
