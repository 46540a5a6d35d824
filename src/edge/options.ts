/** What the edge needs from the rest of the gateway: the services of one route, and the settings of an endpoint. */
import type { HeldBytes } from '../lib/byte-budget.ts';
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { Closed } from '../lib/clock.ts';
import type { Caller, CallerRefusal, CallReply, EdgeRequest, Waiter } from '../model/request.ts';
import type { Log } from '../ops/log.ts';
import type { Tracer } from '../ops/tracing.ts';
import type { ClientRequestId } from '../protocol/ids.ts';
import type { JsonObject } from '../protocol/json.ts';
import type { ListenWaiter } from '../subscriptions/subscriptions.ts';
import type { ReadRequest } from './request/message.ts';
import type { ResponseSettings, SentResponse, UnnamedRefusal } from './response-writer.ts';

/** A request of a caller who was let in, as it goes to the server untranslated. */
export interface PassedRequest {
  readonly raw: IncomingMessage;
  readonly response: ServerResponse;
  readonly caller: Caller;
  /** What was read of it; `null` if its body is streamed, or if it has none. */
  readonly body: Buffer | null;
}

/**
 * Called if the server refuses a request (4xx). Never rejects.
 * @returns what serves the request in place of that; `null` if the response is passed on
 */
export type OnRefused = () => Promise<(() => void) | null>;

/**
 * Passes on a POST for the public path, with the bytes that were read. Resolves when the response has begun or the client has
 * left.
 */
export type PassThrough = (request: PassedRequest, onRefused?: OnRefused) => Promise<void>;

/** The services of one route. */
export interface EdgeRoute {
  readonly id: string;
  readonly path: string;
  /**
   * Tells whether the server is modern itself, so that nothing is translated. Never rejects.
   * @param method of the request, as its headers say
   */
  readonly isModern: (
    caller: Caller,
    method: IncomingHttpHeaders[string],
  ) => boolean | Promise<boolean>;
  /** Never rejects. */
  readonly identify: (
    request: IncomingMessage,
  ) => Caller | CallerRefusal | Promise<Caller | CallerRefusal>;
  readonly capabilities: (request: EdgeRequest) => JsonObject | null;
  /** Decides whether the caller may send the request. @returns how it is refused; `null` if it is not */
  readonly refusalOf: (request: EdgeRequest) => UnnamedRefusal | null;
  /** Finds what differs between `Mcp-Param-*` headers and the tool's arguments, or `null`. Never rejects. */
  readonly parameterHeaders: (
    request: EdgeRequest,
    rawHeaders: readonly string[],
  ) => string | null | Promise<string | null>;
  readonly discover: (request: EdgeRequest) => Promise<CallReply>;
  readonly forward: (request: EdgeRequest, closed: Closed) => Promise<CallReply>;
  readonly call: (request: EdgeRequest, waiter: Waiter) => Promise<CallReply>;
  /** Serves a request about a task. */
  readonly task: (request: EdgeRequest, waiter: Waiter) => Promise<CallReply>;
  /** Serves a listener until it ends. @param http the request as it came */
  readonly listen: (
    request: EdgeRequest,
    id: ClientRequestId,
    waiter: ListenWaiter,
    http: IncomingMessage,
  ) => Promise<CallReply>;
  /** Rewrites what a reply says of the server's URL. */
  readonly published: (reply: CallReply, caller: Caller) => CallReply;
  readonly passThrough: PassThrough;
  /** Tells, after it refused a modern request, whether the server is no longer modern. Never rejects. */
  readonly isLegacyNow: (caller: Caller) => Promise<boolean>;
}

/** The settings of one endpoint. */
export interface EdgeOptions extends ResponseSettings {
  /** Reads a request of the wire that is spoken on this path. Never throws. */
  readonly read: (request: IncomingMessage, body: Uint8Array, caller: Caller) => ReadRequest;
  /** Called for a request that is refused because its client is a legacy one. */
  readonly legacyRefused: (caller: Caller) => void;
  readonly maxBodyBytes: number;
  /** Counts what a body takes until all of it has come. */
  readonly holdBytes: (owner: string) => HeldBytes;
  /** Called before a body is read. */
  readonly beforeBody: (response: ServerResponse) => void;
  readonly log: Log;
  /** `null` if no traces are exported. */
  readonly tracer: Tracer | null;
  /** Called with each request that has its response. */
  readonly observe: (
    request: EdgeRequest,
    reply: CallReply,
    sent: SentResponse,
    ms: number,
  ) => void;
}
