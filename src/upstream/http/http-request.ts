/** A request to the server, and how the response to it begins. */
import type { IncomingHttpHeaders } from 'node:http';
import type { JsonObject } from '../../protocol/json.ts';

/** A request, and how patiently it is sent. */
export interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** Another URL on the origin of the server. */
  readonly url?: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  /** The limit from the end of the request to the head of the response, in ms; 0 for none. */
  readonly headersTimeoutMs?: number;
  /** The limit for the request and the whole response, in ms. */
  readonly timeoutMs?: number;
  /** True if the request carries a session id, so that a 404 means that the session is gone. */
  readonly inSession?: boolean;
  /**
   * Whether to send the request once more, on a new connection, if the connection breaks before a
   * response. A server may close an idle connection in the moment in which it is used.
   */
  readonly repeatable?: boolean;
  /**
   * How long after the request was written the server may only hold the head of its response back, in ms: what becomes of the request later, such
   * as the status of a proxy that waits no longer, says nothing of the server.
   */
  readonly heldAfterMs?: number;
}

/** Writes a message as a POST that takes its response in each form. @param accept otherwise */
export function postOf<Headers extends Readonly<Record<string, string>>>(
  message: JsonObject,
  headers: Headers,
  accept = 'application/json, text/event-stream',
) {
  return {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json', accept },
    body: JSON.stringify({ jsonrpc: '2.0', ...message }),
  } as const;
}

export interface ResponseHead {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** The media type in lower case, without parameters. */
  readonly mediaType: string;
}

/** How a reader takes a body: as events, as one JSON value, or not at all. */
export type BodyForm = 'events' | 'json' | 'none';
