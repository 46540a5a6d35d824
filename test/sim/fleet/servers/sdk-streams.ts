/** The streams of a session of the SDK, as far as they can be seen from beside it: who reads them, and what is on them. */
import type { ServerResponse } from 'node:http';
import type { EventStore } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { OrderedEventStore } from '../../../fixtures/servers/ordered-event-store.ts';
import { peerOf } from './requests.ts';
import { STANDALONE } from './streamable-http.ts';

/** As the SDK names the stream of a session. */
const STANDALONE_OF_SDK = '_GET_stream';

/** An event that was stored, by the number of its stream. */
export interface StoredEvent {
  readonly stream: string;
  readonly event: number;
}

/** Keeps the events of a session. Their ids are their numbers. */
export class CountingEventStore extends OrderedEventStore {
  readonly #streams: string[] = [];

  /** The event that was stored last. */
  get last(): StoredEvent {
    return { stream: nameOf(this.#streams.at(-1)), event: this.#streams.length };
  }

  /** @returns the stream of an event; `null` if there is no such event */
  streamOf(event: number): string | null {
    return event > 0 && event <= this.#streams.length ? nameOf(this.#streams[event - 1]) : null;
  }

  override storeEvent(...event: Parameters<EventStore['storeEvent']>): Promise<string> {
    this.#streams.push(event[0]);
    return super.storeEvent(...event);
  }
}

function nameOf(stream: string | undefined): string {
  return stream === STANDALONE_OF_SDK || stream === undefined ? STANDALONE : stream;
}

/** The responses of a session that are not over, by what they are of: a stream, or the id of a request. */
export class OpenResponses {
  readonly #open = new Map<string | number, ServerResponse>();

  get isAny(): boolean {
    return this.#open.size > 0;
  }

  add(of: string | number, response: ServerResponse): void {
    this.#open.set(of, response);
    response.on('close', () => {
      if (this.#open.get(of) === response) this.#open.delete(of);
    });
  }

  /** The process that reads the first of these that is read, or `nobody`. */
  readerOf(...of: (string | number | undefined)[]): string {
    const found = of.find((one) => one !== undefined && this.#open.has(one));
    return peerOf(found === undefined ? null : (this.#open.get(found) ?? null));
  }
}

/** Calls `callback` with the status when the head of a response is written. */
export function onHead(response: ServerResponse, callback: (status: number) => void): void {
  const { writeHead } = response;
  response.writeHead = ((...head: Parameters<ServerResponse['writeHead']>) => {
    writeHead.apply(response, head);
    callback(response.statusCode);
    return response;
  }) as ServerResponse['writeHead'];
}
