/** A server that speaks 2026-07-28, for requests that the gateway sends itself: each stands alone, and has its own reply. */
import type { JsonObject } from '../protocol/json.ts';
import type { JsonRpcReply } from '../protocol/json-rpc.ts';
import type { UpstreamFailure } from './upstream-failure.ts';

export interface ModernServer {
  /** Whether requests have HTTP headers, which repeat parameters of tools (streamable-http, "Custom Headers from Tool Parameters"). */
  readonly hasHeaders: boolean;
  /**
   * Sends a request. Its listener is told what becomes of it, never before this returns. Progress has the token of the request; a
   * subscription has the id by which the server knows it.
   */
  send(request: ModernServerRequest, listener: ModernListener): SentRequest;
}

export interface ModernServerRequest {
  readonly method: string;
  /** With the `_meta` of 2026-07-28, as the server gets it. */
  readonly params: JsonObject;
  /** Headers of the caller that go to the server, and those of parameters. None reach a process. */
  readonly headers: Readonly<Record<string, string>>;
  /** How long the reply can take, in ms; `null` for a request that ends when the server wants it to. */
  readonly timeoutMs: number | null;
}

export interface ModernListener {
  /** What the server says about the request before the reply: progress, log messages, changes that it listens to. */
  notified(method: string, params: JsonObject): void;
  /** The reply. The last thing that is told. */
  replied(reply: JsonRpcReply): void;
  /** There is no reply. The last thing that is told. */
  failed(failure: UpstreamFailure): void;
}

export interface SentRequest {
  /** Tells the server that nobody waits any more. The listener is told nothing more. */
  cancel(): void;
  /** Reads no more of what the server says about it, so far as that is possible, until `resume`. */
  pause(): void;
  resume(): void;
}

/** The modern server of a route, as each of its callers uses it. */
export interface ModernServers {
  /** Returns the server for the requests of a caller. Nothing is sent or started yet. */
  serverOf(caller: ModernCaller): ModernServer;
}

/** For whom requests are sent. */
export interface ModernCaller {
  /** Equal for the same principal only. Over stdio each has a process. */
  readonly principalKey: string;
  /** `null` for a caller that nothing tells from others. */
  readonly principal: string | null;
}
