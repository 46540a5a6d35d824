/**
 * What a legacy session needs of a transport: to send messages, and to hear on which stream the
 * server's messages came. Streamable HTTP and HTTP+SSE each implement it.
 */
import type { ExactNumber, JsonObject } from '../../protocol/json/json.ts';
import type { JsonRpcMessage, JsonRpcReply } from '../../protocol/json-rpc.ts';
import type { ServerRequestId, SessionId, UpstreamRequestId } from '../../protocol/ids.ts';
import type { LegacyRevision } from '../../protocol/revisions.ts';
import type { UpstreamFailure } from '../failure.ts';

/** Where a message came from: the stream of one request, or a stream that belongs to no request. */
export type MessageSource =
  | { readonly stream: 'request'; readonly id: UpstreamRequestId }
  | { readonly stream: 'standalone' };

export interface TransportListener {
  message(message: JsonRpcMessage, source: MessageSource): void;
  /** The stream of a request ended without a response; it is being resumed. */
  interrupted(id: UpstreamRequestId): void;
  resumed(id: UpstreamRequestId): void;
  /** The stream of a request is gone for good. */
  lost(id: UpstreamRequestId, failure: UpstreamFailure): void;
  /** Resolves when more of the request's own stream may be read; `null` while it may. */
  backlog(id: UpstreamRequestId): Promise<void> | null;
  /** The whole session is gone (the one stream of HTTP+SSE ended). */
  closed(failure: UpstreamFailure): void;
  /** The standalone stream is open for the first time, or anew after it was lost. */
  standaloneOpened(): void;
  /** The standalone stream was cut and is open again; `gapless` when it goes on behind its last event. */
  standaloneResumed(gapless: boolean): void;
  /** The standalone stream was open and could not be got back. */
  standaloneLost(failure: UpstreamFailure): void;
}

/** Headers of the caller whose request this message serves, to be sent along. */
export type CallerHeaders = Readonly<Record<string, string>>;

/** A place in a session's stream, from which it can be read on (transports, "Resumability and Redelivery"). */
export interface StreamPoint {
  readonly sessionId: SessionId;
  readonly revision: LegacyRevision;
  readonly lastEventId: string;
}

export interface OutgoingRequest {
  readonly id: UpstreamRequestId;
  readonly method: string;
  readonly params: JsonObject;
}

export interface Transport {
  readonly kind: 'streamable-http' | 'http-sse';
  /** True when answers can reach the server's session: an id was given, or the stream is the session. */
  readonly hasSession: boolean;
  /** True when the text contains the id of the session. */
  reveals(text: string): boolean;
  /** Opens what must be open before the first message. Throws UpstreamFailure. */
  open(headers: CallerHeaders): Promise<void>;
  /** The revision that `initialize` settled on; sent with each later message. */
  useRevision(revision: LegacyRevision): void;
  /**
   * Sends a request. Resolves when the server has taken it; everything that follows comes through
   * the listener. Throws UpstreamFailure when it was not taken.
   */
  request(request: OutgoingRequest, headers: CallerHeaders): Promise<void>;
  /** Sends a notification; resolves when the server has taken it. Throws UpstreamFailure. */
  notify(method: string, params: JsonObject, headers: CallerHeaders): Promise<void>;
  /** Answers a request of the server; resolves when the server has taken it. Throws UpstreamFailure. */
  respond(
    id: ServerRequestId | ExactNumber,
    reply: JsonRpcReply,
    headers: CallerHeaders,
  ): Promise<void>;
  /**
   * Takes up the stream of a request that another connection had, from behind its last event; what
   * comes of it is told to the listener. Only where `resumable` gave a point to take it up from.
   */
  resume(id: UpstreamRequestId, point: StreamPoint, headers: CallerHeaders): void;
  /** Where a request's stream could be taken up by somebody else; `null` where it could not. */
  resumable(id: UpstreamRequestId): StreamPoint | null;
  /**
   * Makes sure that the stream is open on which a server sends what belongs to no request; false when it
   * offers none, or does not give it yet. There is one at a time, and it is opened by one attempt at a
   * time. `once` does not wait for what a second try may bring; the tries go on.
   */
  openStandaloneStream(headers: CallerHeaders, wait?: 'once'): Promise<boolean>;
  /** Drops everything here and leaves the session with the server, for whoever takes it up. */
  leave(): void;
  /** Closes the stream of a request; nothing more is heard of it. */
  abandon(id: UpstreamRequestId): void;
  /** Ends the session politely and frees everything. Never throws. */
  close(headers: CallerHeaders): Promise<void>;
}
