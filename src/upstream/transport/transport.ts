/** The interface between a legacy session and its transport. Streamable HTTP, HTTP+SSE and stdio implement it. */
import type { ExactNumber, JsonObject } from '../../protocol/json.ts';
import type { JsonRpcMessage, JsonRpcReply } from '../../protocol/json-rpc.ts';
import type { ServerRequestId, SessionId, UpstreamRequestId } from '../../protocol/ids.ts';
import type { LegacyRevision } from '../../protocol/meta.ts';
import type { DroppedMessage } from '../../model/channel.ts';
import type { UpstreamFailure } from '../../model/upstream-failure.ts';
import type { TransportKind } from './traits.ts';

/** Where a message came from: the stream of one request, or a stream that belongs to no request. */
export type MessageSource =
  | { readonly stream: 'request'; readonly id: UpstreamRequestId }
  | { readonly stream: 'standalone' };

/** What a session is told by its transport. */
export interface TransportListener {
  message(message: JsonRpcMessage, source: MessageSource): void;
  /**
   * A message on a stream that belongs to no request was too large, and was discarded. The stream goes on.
   * @param failure what becomes of the request, if the message is the reply to one
   */
  dropped(message: DroppedMessage, failure: UpstreamFailure): void;
  /** A request is written on a connection, and the server may respond to it late: what it is silent about from here on counts. */
  sent(id: UpstreamRequestId): void;
  /** The server has taken a request. */
  accepted(id: UpstreamRequestId): void;
  /** The server has not taken a request. Nothing more is told of it. */
  notTaken(id: UpstreamRequestId, failure: UpstreamFailure): void;
  /** The stream of a request ended without a reply. It is being resumed. */
  interrupted(id: UpstreamRequestId): void;
  resumed(id: UpstreamRequestId): void;
  /** The stream of a request ended for good. */
  lost(id: UpstreamRequestId, failure: UpstreamFailure): void;
  /** Returns a promise if the stream of the request must not be read before it resolves, else `null`. */
  backlog(id: UpstreamRequestId): Promise<void> | null;
  /** The whole session is over: the one stream of HTTP+SSE ended, or the process over stdio. */
  closed(failure: UpstreamFailure): void;
  /** The standalone stream is open for the first time, or again after it was lost. */
  standaloneOpened(): void;
  /** The standalone stream broke and is open again; `gapless` if it continues after its last event. */
  standaloneResumed(gapless: boolean): void;
  /** The standalone stream broke and is refused. It is tried again. */
  standaloneLost(failure: UpstreamFailure): void;
  /** The standalone stream is about to be opened again. Never rejects. */
  beforeReopening(): Promise<unknown> | null;
  /** The GET of the standalone stream was refused as if the session were gone. @returns false if it is */
  confirmSession(): Promise<boolean>;
  /** The standalone stream was held back (`Transport.standaloneHeld`), and is refused after all. */
  standaloneRefused(failure: UpstreamFailure): void;
}

/** The headers of the caller that are sent with a message that serves it. */
export type CallerHeaders = Readonly<Record<string, string>>;

/** What another connection, or another process, needs to use a session. */
export interface SessionPoint {
  readonly sessionId: SessionId;
  readonly revision: LegacyRevision;
  /** The result of `initialize` in that session; absent if it is not known here. */
  readonly initialized?: JsonObject;
}

/** Where the stream of a request can be resumed (transports, "Resumability and Redelivery"). */
export interface StreamPoint extends SessionPoint {
  /** The last event that was read; `null` if the server gave it no id. */
  readonly lastEventId: string | null;
}

export interface OutgoingRequest {
  readonly id: UpstreamRequestId;
  readonly method: string;
  readonly params: JsonObject;
}

export interface Transport {
  readonly kind: TransportKind;
  /** True if answers reach the session: the server issued an id, or the stream is the session. */
  readonly hasSession: boolean;
  /** The id by which another process can take the session over; `null` if none can. */
  readonly sessionId: SessionId | null;
  /** True once an event on the stream of a request had an id: the server numbers them, so that streams can be resumed. */
  readonly numbersEvents?: boolean;
  /** True if the text contains the id of the session. */
  reveals(text: string): boolean;
  /** Opens what has to be open before the first message. Throws UpstreamFailure. */
  open(headers: CallerHeaders): Promise<void>;
  /** Sets the revision that `initialize` agreed on. It is sent with each later message. */
  useRevision(revision: LegacyRevision): void;
  /**
   * Takes over a session that another transport opened. Sends nothing. Absent where a session ends with its transport.
   * @param id `null` for a server that gives no session ids, as far as it is known
   */
  adopt?(id: SessionId | null, revision: LegacyRevision): void;
  /** Sends a request. The listener is told what becomes of it, never before this returns. */
  request(request: OutgoingRequest, headers: CallerHeaders): void;
  /** Sends a notification. Resolves when the server has taken it. Throws UpstreamFailure. */
  notify(method: string, params: JsonObject, headers: CallerHeaders): Promise<void>;
  /**
   * Replies to a request of the server. Resolves when the server has taken it. Throws UpstreamFailure.
   * @param call in which the server asked; `null` if it belongs to no call
   */
  respond(
    id: ServerRequestId | ExactNumber,
    reply: JsonRpcReply,
    headers: CallerHeaders,
    call: UpstreamRequestId | null,
  ): Promise<void>;
  /** From here on, streams that break are resumed with these credentials. Absent where no stream is resumed. */
  useHeaders?(headers: CallerHeaders): void;
  /**
   * Resumes the stream of a request that another connection had, after this event. The listener is told what becomes
   * of it. Absent where no session is taken over.
   */
  resume?(id: UpstreamRequestId, lastEventId: string, headers: CallerHeaders): void;
  /** Returns where the stream of a request is, for another replica; `null` if none could use the session. */
  resumable(id: UpstreamRequestId): StreamPoint | null;
  /**
   * Opens the stream for messages that belong to no request, if it is not open. There is one at a time.
   * @param wait `once` waits for the first attempt only; further attempts go on
   * @returns true at once if it is open; false if the server does not offer the stream, or does not open it in time
   */
  openStandaloneStream(headers: CallerHeaders, wait?: 'once'): boolean | Promise<boolean>;
  /** Closes that stream for good. Absent where there is one stream for everything. */
  closeStandaloneStream?(): void;
  /**
   * True if the server has taken the GET of that stream and refused nothing, and lets the head of its response wait.
   * Servers of the Java SDK send it with the first message.
   */
  readonly standaloneHeld: boolean;
  /** True while that stream is not open, although the server offers it: it is being opened, or was lost. */
  readonly standaloneDue: boolean;
  /** Frees everything here. The server keeps the session, so that another replica can take it over. */
  leave(): void;
  /** Closes the stream of a request. Nothing more is told of it. */
  abandon(id: UpstreamRequestId): void;
  /** Ends the session at the server and frees everything. Never throws. */
  close(headers: CallerHeaders): Promise<void>;
}
