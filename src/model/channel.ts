/**
 * A connection of a legacy client with a server, on which both sides send messages at any time: over stdio a process, and a
 * translation in front of a server of 2026-07-28.
 */
import type { ExactNumber } from '../protocol/json.ts';
import type { JsonRpcMessage } from '../protocol/json-rpc.ts';
import type { UpstreamFailure } from './upstream-failure.ts';

/** A message that was too large, and what it was for. */
export type DroppedMessage =
  | { readonly type: 'response'; readonly id: string | number | null }
  | {
      readonly type: 'request';
      readonly id: string | number | ExactNumber;
      readonly method: string;
    }
  | { readonly type: 'notification'; readonly method: string };

export interface ChannelListener {
  /**
   * The server has sent a message, or several at once (2025-03-26).
   * @param line the JSON as the server wrote it
   * @param about the id of the client's request that the message belongs to; `null` for none, absent if that is not known
   */
  messages(messages: readonly JsonRpcMessage[], line: string, about?: string | number | null): void;
  /**
   * A message was too large, and was discarded.
   * @param failure what becomes of the request, if the message is the reply to one
   */
  dropped(message: DroppedMessage, failure: UpstreamFailure): void;
  /** The channel is over, and nobody here wanted that. Called at most once. */
  ended(failure: UpstreamFailure): void;
}

/** The session of a legacy client. */
export interface SessionListener extends ChannelListener {
  /**
   * The server refuses a request with a status of its own, such as for the credentials of the client.
   * @param line the JSON of the response
   */
  refused(id: string | number, line: string, refusal: ChannelRefusal): void;
}

/** How a request is refused that has no byte of its response yet. */
export interface ChannelRefusal {
  readonly httpStatus: number;
  readonly headers: Readonly<Record<string, string>>;
}

export interface Channel {
  /**
   * Sends a message. Resolves when it is written.
   * @param line JSON without a line break
   * @param headers of its caller that go to the server. None reach a process
   * @throws UpstreamFailure if the server has not taken it
   */
  send(line: string, headers: Readonly<Record<string, string>>): Promise<void>;
  /** Takes the headers of a request without a message: its client can have renewed its credentials. */
  renew(headers: Readonly<Record<string, string>>): void;
  /** Reads no more from the server, so that it waits. */
  pause(): void;
  resume(): void;
  /** Ends it. The listener hears of nothing from here on. Resolves when nothing of it is left. */
  end(): Promise<void>;
}

/** Who uses the channel of a legacy client. `stream`: only a GET is open, which can be a connection that is long dead. */
export type ChannelUse = 'request' | 'stream' | 'none';

/** For whom a channel is opened. */
export interface ChannelOwner {
  /** The name of the session in the log. */
  readonly name: string;
  /** Whose sessions it counts with; `null` for a caller that nothing tells from others. */
  readonly principal: string | null;
  readonly principalKey: string;
}

/** A channel that takes one of the sessions that a route can have. */
export interface PermittedChannel extends Channel {
  /** Says whether it can end for another session. */
  use(use: ChannelUse): void;
}

/** Returns a channel that takes none of them. */
export function withoutPermit(channel: Channel): PermittedChannel {
  return {
    send: (line, headers) => channel.send(line, headers),
    renew: (headers) => channel.renew(headers),
    pause: () => channel.pause(),
    resume: () => channel.resume(),
    end: () => channel.end(),
    use: () => {},
  };
}

/** The server of a route, for clients that speak its revision. */
export interface ChannelServer {
  readonly route: string;
  /** How long a session lives that nobody uses, in ms. */
  readonly idleTimeoutMs: number;
  readonly initializeTimeoutMs: number;
  /** Whether the server itself keeps nothing of a session, so that it can be opened again as it was. */
  readonly keepsNothing: boolean;
  /** Whether it learns the roots of a client. */
  readonly learnsRoots: boolean;
  /**
   * Opens a channel, in the limits of the route.
   * @param end called if the channel has to end for another session
   * @throws UpstreamFailure
   */
  open(owner: ChannelOwner, listener: SessionListener, end: () => void): Promise<PermittedChannel>;
  /**
   * Finds out whether the server speaks another revision than before, now that a channel has refused `initialize`. Never rejects.
   * @param keptNothing what `keepsNothing` was when that channel was opened
   */
  hasChanged(keptNothing: boolean): Promise<boolean>;
}
