/**
 * The HTTP+SSE transport of 2024-11-05, seen from the client: one GET stream that carries everything
 * the server says, and an endpoint, named by its first event, that takes POSTs. When the stream ends,
 * the session is over; there is no resumption.
 */
import type { Clock } from '../../../lib/clock.ts';
import type { ServerRequestId, UpstreamRequestId } from '../../../protocol/ids.ts';
import type { ExactNumber, JsonObject } from '../../../protocol/json/json.ts';
import { readMessage, type JsonRpcReply } from '../../../protocol/json-rpc.ts';
import type { LegacyRevision } from '../../../protocol/revisions.ts';
import { readEventStream } from '../event-stream.ts';
import type { HttpResponse, HttpClient } from '../../http/client.ts';
import type { CallerHeaders, OutgoingRequest, Transport, TransportListener } from '../transport.ts';
import { asUpstreamFailure, UpstreamFailure } from '../../failure.ts';
import { upstreamJson } from '../../http/json.ts';

const ENDPOINT_WAIT_MS = 5_000;
/** A server whose stream is gone may never answer a POST, so a POST has its own bound. */
const POST_WAIT_MS = 10_000;

export class HttpSseTransport implements Transport {
  readonly kind = 'http-sse';
  readonly hasSession = true;
  readonly #http: HttpClient;
  readonly #listener: TransportListener;
  readonly #clock: Clock;
  readonly #onEndpoint: (endpoint: URL) => void;
  readonly #abort = new AbortController();
  #endpoint: URL | null = null;
  #revision: LegacyRevision | null = null;

  /** @param onEndpoint told where the server wants messages posted */
  constructor(
    http: HttpClient,
    listener: TransportListener,
    clock: Clock,
    onEndpoint: (endpoint: URL) => void = () => {},
  ) {
    this.#http = http;
    this.#listener = listener;
    this.#clock = clock;
    this.#onEndpoint = onEndpoint;
  }

  reveals(text: string): boolean {
    const query = this.#endpoint?.searchParams.values() ?? [];
    return [...query].some((value) => value.length >= 8 && text.includes(value));
  }

  async open(headers: CallerHeaders): Promise<void> {
    const answer = await this.#http.send({
      method: 'GET',
      headers: { ...headers, accept: 'text/event-stream' },
      signal: this.#abort.signal,
      // Nothing was said of a session yet.
      repeatable: true,
    });
    if (answer.status >= 400) throw await this.#http.failureOf(answer, false);
    if (answer.mediaType !== 'text/event-stream') {
      answer.body.on('error', () => {}).destroy();
      throw notThisTransport('a GET did not open an event stream');
    }
    this.#endpoint = await this.#awaitEndpoint(answer);
    this.#onEndpoint(this.#endpoint);
  }

  useRevision(revision: LegacyRevision): void {
    this.#revision = revision;
  }

  async request(request: OutgoingRequest, headers: CallerHeaders): Promise<void> {
    const { id, method, params } = request;
    await this.#post({ jsonrpc: '2.0', id, method, params }, headers);
  }

  async notify(method: string, params: JsonObject, headers: CallerHeaders): Promise<void> {
    await this.#post({ jsonrpc: '2.0', method, params }, headers);
  }

  async respond(
    id: ServerRequestId | ExactNumber,
    reply: JsonRpcReply,
    headers: CallerHeaders,
  ): Promise<void> {
    await this.#post({ jsonrpc: '2.0', id, ...reply } as JsonObject, headers);
  }

  async openStandaloneStream(): Promise<boolean> {
    this.#listener.standaloneOpened();
    return true;
  }

  /** The one stream is the session, and ends with the connection (2024-11-05, transports). */
  resume(id: UpstreamRequestId): void {
    this.#listener.lost(
      id,
      new UpstreamFailure('session_gone', 'HTTP+SSE cannot be resumed', { mayHaveActed: true }),
    );
  }

  resumable(): null {
    return null;
  }

  leave(): void {
    void this.close();
  }

  abandon(_id: UpstreamRequestId): void {}

  async close(): Promise<void> {
    this.#abort.abort();
  }

  /** Reads the one stream from its first event on; resolves with the endpoint that it names. */
  #awaitEndpoint(answer: HttpResponse): Promise<URL> {
    return new Promise((resolve, reject) => {
      const timer = this.#clock.setTimer(ENDPOINT_WAIT_MS, () =>
        fail(notThisTransport(`no "endpoint" event within ${ENDPOINT_WAIT_MS} ms`)),
      );
      const fail = (failure: UpstreamFailure) => {
        timer.cancel();
        answer.body.on('error', () => {}).destroy();
        reject(failure);
      };
      let named = false;
      const handlers = {
        retry: () => {},
        event: ({ event, data }: { event: string; data: string }) => {
          if (event === 'endpoint' && !named) {
            const endpoint = sameOrigin(data, this.#http.url);
            if (endpoint === null)
              return fail(notThisTransport('the endpoint is on another origin'));
            named = true;
            timer.cancel();
            resolve(endpoint);
          } else if (event === 'message' && data !== '') {
            this.#dispatch(data);
          }
        },
      };
      void readEventStream(answer.body, this.#http.maxEventBytes, handlers)
        .then(() => streamEnded(), asStreamFailure)
        .then((failure) => {
          if (!named) fail(failure);
          else if (!this.#abort.signal.aborted) this.#listener.closed(failure);
        });
    });
  }

  #dispatch(data: string): void {
    const value = upstreamJson(data);
    for (const element of Array.isArray(value) ? value : [value]) {
      this.#listener.message(readMessage(element), { stream: 'standalone' });
    }
  }

  async #post(message: JsonObject, headers: CallerHeaders): Promise<void> {
    if (this.#endpoint === null) throw notThisTransport('the transport is not open');
    const late = new AbortController();
    const timer = this.#clock.setTimer(POST_WAIT_MS, () =>
      late.abort(new DOMException('the POST was not answered', 'TimeoutError')),
    );
    try {
      const answer = await this.#http.send({
        method: 'POST',
        url: this.#endpoint,
        headers: {
          ...headers,
          'content-type': 'application/json',
          accept: 'application/json',
          ...(this.#revision === null ? {} : { 'mcp-protocol-version': this.#revision }),
        },
        body: JSON.stringify(message),
        signal: AbortSignal.any([this.#abort.signal, late.signal]),
      });
      if (answer.status >= 400) throw await this.#http.failureOf(answer, true);
      this.#http.discard(answer);
    } finally {
      timer.cancel();
    }
  }
}

function streamEnded(): UpstreamFailure {
  return new UpstreamFailure('upstream_unavailable', 'the event stream of the session ended', {
    mayHaveActed: true,
  });
}

function asStreamFailure(error: unknown): UpstreamFailure {
  return asUpstreamFailure(error, true);
}

function notThisTransport(problem: string): UpstreamFailure {
  return new UpstreamFailure('upstream_protocol_error', problem, { mayHaveActed: false });
}

/** Resolves the endpoint against the stream's URL; another origin is refused, since it would make us
 * send the caller's credentials wherever an upstream likes. */
function sameOrigin(data: string, base: URL): URL | null {
  const url = URL.canParse(data, base.href) ? new URL(data, base) : null;
  return url !== null && url.origin === base.origin ? url : null;
}
