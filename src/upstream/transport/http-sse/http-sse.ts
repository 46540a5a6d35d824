/**
 * The HTTP+SSE transport of 2024-11-05, as a client: a GET stream with all messages of the server, and an
 * endpoint for POSTs. To delete it, delete this folder and what names `http-sse` outside of it.
 */
import { Members } from '../../../lib/containers.ts';
import type { Clock, Timer } from '../../../lib/clock.ts';
import type { UpstreamRequestId } from '../../../protocol/ids.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import { readMessage } from '../../../protocol/json-rpc.ts';
import type { LegacyRevision } from '../../../protocol/meta.ts';
import {
  asUpstreamFailure,
  protocolError,
  UpstreamFailure,
} from '../../../model/upstream-failure.ts';
import type { HttpClient } from '../../http/client.ts';
import type { DiscardedMessage } from '../../discarded-message.ts';
import { LARGE_EVENT, type ServerSentEvent, upstreamJson } from '../../http/bodies.ts';
import { replyTooLarge, tooLarge } from '../../size-limits.ts';
import type { HttpExchange, ResponseReader } from '../../http/http-exchange.ts';
import { postOf, type BodyForm, type ResponseHead } from '../../http/http-request.ts';
import { StatusReader } from '../../http/readers.ts';
import { SingleStream } from '../single-stream.ts';
import type { CallerHeaders, OutgoingRequest, Transport, TransportListener } from '../transport.ts';

const ENDPOINT_TIMEOUT_MS = 5_000;
/**
 * A server whose stream is gone may never respond to a POST. That of a request has no limit while its reply is awaited, since some
 * servers (those of the Java SDK) respond when they have handled the request: the sender of the request limits the time.
 */
const POST_TIMEOUT_MS = 10_000;

export interface HttpSseOptions {
  /** Called with the URL to which the server wants messages posted. */
  readonly onEndpoint?: (endpoint: URL) => void;
}

export class HttpSseTransport extends SingleStream implements Transport, ResponseReader {
  readonly kind = 'http-sse';
  /** All calls of the session share the stream. */
  readonly discardsLarge = true;
  readonly #http: HttpClient;
  readonly #clock: Clock;
  readonly #options: HttpSseOptions;
  readonly #endpointNamed = Promise.withResolvers<void>();
  readonly #posts = new Members<HttpExchange>();
  /** The POSTs of requests to which the server has not responded yet. */
  readonly #requests = new Map<UpstreamRequestId, HttpExchange>();
  #stream: HttpExchange | null = null;
  #endpointTimer: Timer | null = null;
  #endpoint: URL | null = null;
  #revision: LegacyRevision | null = null;

  constructor(
    http: HttpClient,
    listener: TransportListener,
    clock: Clock,
    options: HttpSseOptions,
  ) {
    super(listener);
    this.#http = http;
    this.#clock = clock;
    this.#options = options;
    // Closing a transport that is not open rejects it.
    this.#endpointNamed.promise.catch(() => {});
  }

  reveals(text: string): boolean {
    const query = this.#endpoint?.searchParams.values() ?? [];
    return [...query].some((value) => value.length >= 8 && text.includes(value));
  }

  async open(headers: CallerHeaders): Promise<void> {
    const request = {
      method: 'GET',
      headers: { ...headers, accept: 'text/event-stream' },
    } as const;
    // No session exists yet, so the request may be repeated.
    this.#stream = this.#http.send({ ...request, repeatable: true }, this);
    await this.#endpointNamed.promise;
  }

  useRevision(revision: LegacyRevision): void {
    this.#revision = revision;
  }

  request({ id, method, params }: OutgoingRequest, headers: CallerHeaders): void {
    this.send({ jsonrpc: '2.0', id, method, params }, headers, id)
      .finally(() => this.#requests.delete(id))
      .then(
        () => this.listener.accepted(id),
        (error: unknown) => this.listener.notTaken(id, asUpstreamFailure(error, true)),
      );
  }

  abandon(id: UpstreamRequestId): void {
    this.#requests.get(id)?.endWithin(POST_TIMEOUT_MS);
  }

  async close(): Promise<void> {
    this.#endpointTimer?.cancel();
    this.#stream?.abort();
    const details = { mayHaveActed: true };
    const closed = new UpstreamFailure('upstream_unavailable', 'the session was closed', details);
    for (const post of this.#posts) post.fail(closed);
    this.#endpointNamed.reject(closed);
  }

  // The stream of the server:

  head({ mediaType }: ResponseHead): BodyForm {
    if (mediaType !== 'text/event-stream') {
      throw protocolError('a GET did not open an event stream');
    }
    this.#endpointTimer = this.#clock.setTimer(ENDPOINT_TIMEOUT_MS, () => {
      this.#stream?.fail(protocolError(`no "endpoint" event within ${ENDPOINT_TIMEOUT_MS} ms`));
    });
    return 'events';
  }

  event({ event, data, discarded }: ServerSentEvent): void {
    if (discarded !== undefined) {
      if (event === 'message') this.#drop(discarded);
    } else if (event === 'message' && data !== '') {
      const value = upstreamJson(data);
      for (const element of Array.isArray(value) ? value : [value]) {
        this.listener.message(readMessage(element), { stream: 'standalone' });
      }
    } else if (event === 'endpoint' && this.#endpoint === null) {
      const endpoint = sameOrigin(data, this.#http.options.url);
      if (endpoint === null) throw protocolError('the endpoint is on another origin');
      this.#endpoint = endpoint;
      this.#endpointTimer?.cancel();
      this.#options.onEndpoint?.(endpoint);
      this.#endpointNamed.resolve();
    }
  }

  end(): void {
    this.failed(
      new UpstreamFailure('upstream_unavailable', 'the event stream of the session ended', {
        mayHaveActed: true,
      }),
    );
  }

  failed(failure: UpstreamFailure): void {
    this.#endpointTimer?.cancel();
    if (this.#endpoint !== null) this.listener.closed(failure);
    else this.#endpointNamed.reject(failure);
  }

  /** @throws UpstreamFailure if the message can be of any call */
  #drop(discarded: DiscardedMessage): void {
    const message = discarded.read();
    const { exceeds } = discarded;
    if (message === null) throw tooLarge(LARGE_EVENT, exceeds);
    this.listener.dropped(message, replyTooLarge(LARGE_EVENT, exceeds));
  }

  /** @param request the id of a request, whose POST has no limit of its own */
  protected send(
    message: JsonObject,
    headers: CallerHeaders,
    request?: UpstreamRequestId,
  ): Promise<void> {
    if (this.#endpoint === null) {
      return Promise.reject(protocolError('the transport is not open'));
    }
    const reader = new StatusReader(() => {
      if (request !== undefined) this.listener.sent(request);
    });
    const revision = this.#revision !== null && { 'mcp-protocol-version': this.#revision };
    const post = this.#http.send(
      {
        ...postOf(message, { ...headers, ...revision }, 'application/json'),
        url: this.#endpoint,
        ...(request === undefined ? { timeoutMs: POST_TIMEOUT_MS } : { headersTimeoutMs: 0 }),
        inSession: true,
      },
      reader,
    );
    if (request !== undefined) this.#requests.set(request, post);
    const place = this.#posts.add(post);
    return reader.done.finally(() => place.leave());
  }
}

/**
 * Resolves the endpoint against the URL of the stream. `null` for another origin: an upstream could choose
 * where the gateway sends the credentials of callers.
 */
function sameOrigin(data: string, base: URL): URL | null {
  const url = URL.canParse(data, base.href) ? new URL(data, base) : null;
  return url !== null && url.origin === base.origin ? url : null;
}
