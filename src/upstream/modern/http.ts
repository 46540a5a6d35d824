/** A modern server over HTTP: a POST for each request, whose response is one reply, or a stream of events up to it (streamable-http). */
import type { JsonValue } from '../../protocol/json.ts';
import { ErrorCode, isModernError, readMessage } from '../../protocol/json-rpc.ts';
import type {
  ModernListener,
  ModernServer,
  ModernServerRequest,
  SentRequest,
} from '../../model/modern-server.ts';
import { protocolError, UpstreamFailure } from '../../model/upstream-failure.ts';
import { type ServerSentEvent, upstreamJson } from '../http/bodies.ts';
import type { HttpClient } from '../http/client.ts';
import { LINGER_MS, type ResponseReader } from '../http/http-exchange.ts';
import type { BodyForm, ResponseHead } from '../http/http-request.ts';
import { modernPost } from './request-headers.ts';

/** Each response is one of its own, so that one id is as good as another. */
const ID = 1;

export class ModernHttp implements ModernServer {
  readonly hasHeaders = true;
  readonly #http: HttpClient;
  readonly #onDoubt: () => void;

  /** @param onDoubt called when the server replies as one of 2026-07-28 does not */
  constructor(http: HttpClient, onDoubt: () => void) {
    this.#http = http;
    this.#onDoubt = onDoubt;
  }

  send(
    { method, params, headers, timeoutMs }: ModernServerRequest,
    listener: ModernListener,
  ): SentRequest {
    const told: ModernListener = {
      ...listener,
      failed: (failure) => {
        if (isForeign(failure)) this.#onDoubt();
        const { rpcError } = failure.details;
        // An error can come with a status; that of refused credentials says more than the error.
        if (failure.code === 'unauthorized' || rpcError === undefined) listener.failed(failure);
        else listener.replied({ error: rpcError });
      },
    };
    const reader = new ReplyReader(method, told, () => exchange.endWithin(LINGER_MS));
    const exchange = this.#http.send(
      {
        ...modernPost({ id: ID, method, params }, headers),
        headersTimeoutMs: 0,
        ...(timeoutMs !== null && { timeoutMs }),
      },
      reader,
    );
    return {
      // Closing the response is the cancellation (cancellation, "Streamable HTTP").
      cancel: () => exchange.abort(),
      pause: () => exchange.pause(),
      resume: () => exchange.resume(),
    };
  }
}

/** Tells a listener what a response says, up to the reply. */
class ReplyReader implements ResponseReader {
  readonly #method: string;
  readonly #listener: ModernListener;
  readonly #onReply: () => void;
  #isOver = false;

  /** @param onReply called after the reply: a stream need not end with it */
  constructor(method: string, listener: ModernListener, onReply: () => void) {
    this.#method = method;
    this.#listener = listener;
    this.#onReply = onReply;
  }

  head({ mediaType }: ResponseHead): BodyForm {
    if (mediaType === 'application/json') return 'json';
    if (mediaType === 'text/event-stream') return 'events';
    throw protocolError(`it replied to ${this.#method} with ${mediaType || 'no content type'}`);
  }

  event({ event, data }: ServerSentEvent): void {
    if (event === 'message' && data !== '') this.json(upstreamJson(data));
  }

  json(value: JsonValue): void {
    if (this.#isOver) return;
    const message = readMessage(value);
    if (message.type === 'notification') {
      return this.#listener.notified(message.method, message.params);
    }
    // A server must not send requests here ("Receiving Messages").
    if (message.type !== 'response') return;
    this.#isOver = true;
    this.#listener.replied(message.reply);
    this.#onReply();
  }

  end(): void {
    if (this.#isOver) return;
    const problem = `the response to ${this.#method} ended without a reply`;
    this.failed(new UpstreamFailure('upstream_unavailable', problem, { mayHaveActed: true }));
  }

  failed(failure: UpstreamFailure): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#listener.failed(failure);
  }
}

/** Errors that say of a request what is wrong with it, in any revision. */
const OF_REQUESTS: readonly number[] = [ErrorCode.methodNotFound, ErrorCode.invalidParams];

/** A legacy server misses a session, or refuses the version, with a status and no error of 2026-07-28. */
function isForeign({ details: { httpStatus, rpcError } }: UpstreamFailure): boolean {
  const isRefused = httpStatus === 400 || httpStatus === 404 || httpStatus === 405;
  if (!isRefused || rpcError === undefined) return isRefused;
  return !isModernError(rpcError.code) && !OF_REQUESTS.includes(rpcError.code);
}
