/**
 * HTTP towards one legacy server: no redirects, no decompression, no cookies, limited bodies. A stream has
 * no timeout here, since a parked call is silent while its user thinks; the caller limits it.
 */
import { Readable } from 'node:stream';
import { type Dispatcher, Agent } from 'undici';
import { inBackground } from '../../lib/background.ts';
import type { Clock } from '../../lib/clock.ts';
import type { WriteBurst } from '../../lib/http.ts';
import {
  HttpExchange,
  type ExchangeClient,
  type ExchangeOptions,
  type ResponseReader,
  type ConnectionGroup,
} from './http-exchange.ts';
import type { HttpRequest } from './http-request.ts';
import { StatusReader } from './readers.ts';

/** How long a connection can take, in ms: some repetitions of a packet that was lost, and less than a client waits. */
export const CONNECT_TIMEOUT_MS = 5_000;

export interface HttpClientOptions extends ExchangeOptions {
  readonly url: URL;
  /** Headers that the operator configured for this server. They override all others. */
  readonly headers: Readonly<Record<string, string>>;
  /** Sent as `Host`, in place of that of the URL. */
  readonly hostHeader?: string | null;
  /** Default: `CONNECT_TIMEOUT_MS`. */
  readonly connectTimeoutMs?: number;
  readonly headersTimeoutMs: number;
  /** Makes the writes of requests; without it, each is made at once. */
  readonly writes?: WriteBurst;
}

export class HttpClient implements ExchangeClient {
  readonly options: HttpClientOptions;
  readonly clock: Clock;
  readonly #origin: string;
  readonly #path: string;
  /** The headers of every request. */
  readonly #headers: Readonly<Record<string, string>>;
  readonly #connections: Connections;

  constructor(options: HttpClientOptions, clock: Clock) {
    this.options = options;
    this.clock = clock;
    this.#origin = options.url.origin;
    this.#path = pathOf(options.url);
    const { hostHeader = null } = options;
    this.#headers = {
      'accept-encoding': 'identity',
      ...(hostHeader === null ? {} : { host: hostHeader }),
      ...options.headers,
    };
    this.#connections = new Connections({
      connect: { timeout: options.connectTimeoutMs ?? CONNECT_TIMEOUT_MS, keepAlive: true },
      headersTimeout: options.headersTimeoutMs,
      bodyTimeout: 0,
      pipelining: 1,
      maxHeaderSize: 64 * 1024,
    });
  }

  /** The connections that broke before a response was complete. */
  broken = 0;

  /**
   * Sends a request. Its reader is told what becomes of it, never before this returns.
   * @returns the exchange, to pause or close it
   */
  send(request: HttpRequest, reader: ResponseReader): HttpExchange {
    const exchange = new HttpExchange(this, request, reader);
    const dispatcher = exchange.useConnections(this.#connections.take());
    const { writes } = this.options;
    if (writes === undefined || writes.isDue) {
      dispatcher.dispatch(this.#dispatchOptions(request), exchange);
    } else {
      writes.add(() => void dispatcher.dispatch(this.#dispatchOptions(request), exchange));
    }
    return exchange;
  }

  /**
   * Sends a request whose response says everything by its status.
   * @throws UpstreamFailure for an error status, or without a response
   */
  sendForStatus(request: HttpRequest): Promise<void> {
    const reader = new StatusReader();
    this.send(request, reader);
    return reader.done;
  }

  sendAgain(request: HttpRequest, exchange: HttpExchange): void {
    const dispatcher = exchange.useConnections(this.#connections.take(true));
    dispatcher.dispatch(this.#dispatchOptions(request), exchange);
  }

  /** Closes all connections at once. */
  close(): Promise<void> {
    return this.#connections.close();
  }

  #dispatchOptions(request: HttpRequest): Dispatcher.DispatchOptions {
    const upload = uploadOf(request.body);
    return {
      origin: this.#origin,
      path: request.url === undefined ? this.#path : pathOf(request.url),
      method: request.method,
      headers: { ...request.headers, ...upload.headers, ...this.#headers },
      body: upload.body,
      headersTimeout: request.headersTimeoutMs ?? this.options.headersTimeoutMs,
    };
  }
}

function pathOf({ pathname, search }: URL): string {
  return `${pathname}${search}`;
}

/** undici keeps a string or buffer until the response ends, which may be hours, but not a stream. */
const LARGE_BODY_BYTES = 16 * 1024;

/** Returns the form in which undici is given a body, and the headers that go with it. */
export function uploadOf(text: string | undefined): {
  readonly body: string | Readable | null;
  readonly headers: Readonly<Record<string, string>>;
} {
  if (text === undefined) return { body: null, headers: NO_HEADERS };
  if (text.length < LARGE_BODY_BYTES) return { body: text, headers: NO_HEADERS };
  const bytes = Buffer.from(text);
  return {
    body: Readable.from([bytes], { objectMode: false }),
    headers: { 'content-length': String(bytes.byteLength) },
  };
}

const NO_HEADERS = {};

const MAX_GROUP_SIZE = 64;

/**
 * Connections to one server, in groups. For each request undici's pool searches its connections for a free
 * one. With thousands of parked calls, which keep theirs, that would be most of the work; groups are small.
 */
export class Connections {
  readonly #options: Agent.Options;
  #groups: SharedGroup[] = [];
  #closed = false;

  constructor(options: Agent.Options) {
    this.#options = options;
  }

  /**
   * Takes the first group with room, so that few are in use. After `close`, requests over it fail.
   * @param isNew takes one without connections, so that a new one is opened
   */
  take(isNew = false): ConnectionGroup {
    const known = isNew ? undefined : this.#groups.find(({ busy }) => busy < MAX_GROUP_SIZE);
    const group = known ?? this.#newGroup();
    group.busy += 1;
    return group;
  }

  /** Closes all connections at once. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all(this.#groups.map(({ dispatcher }) => dispatcher.destroy()));
  }

  /** Closes a group that nobody uses, if there is another one. */
  #closeSpare(empty: SharedGroup): void {
    if (!this.#groups.some((group) => group !== empty && group.busy === 0)) return;
    this.#groups = this.#groups.filter((group) => group !== empty);
    // It may have been destroyed.
    empty.dispatcher.close().catch(() => {});
  }

  #newGroup(): SharedGroup {
    const agent = new Agent(this.#options);
    if (this.#closed) inBackground(agent.destroy());
    const group = new SharedGroup(agent, (empty) => this.#closeSpare(empty));
    this.#groups.push(group);
    return group;
  }
}

class SharedGroup implements ConnectionGroup {
  readonly dispatcher: Agent;
  readonly #onEmpty: (group: SharedGroup) => void;
  busy = 0;

  constructor(agent: Agent, onEmpty: (group: SharedGroup) => void) {
    this.dispatcher = agent;
    this.#onEmpty = onEmpty;
  }

  release(): void {
    this.busy -= 1;
    if (this.busy === 0) this.#onEmpty(this);
  }
}
