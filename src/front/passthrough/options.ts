/** What a pass-through is created with, and what it tells. */
import type { IncomingMessage } from 'node:http';
import type { PassedRequest } from '../../edge/options.ts';
import type { OpenResponses } from '../../lib/http.ts';
import type { Caller, CallerRefusal } from '../../model/request.ts';
import type { RequestHeaderRules } from './request.ts';
import type { FailureStatus } from './response.ts';
import type { RewriteMessage } from './rewriting.ts';
import type { SessionSealing } from './sealed-sessions.ts';

export interface PassThroughOptions {
  /** The MCP endpoint of the legacy server. */
  readonly upstream: URL;
  /** The public path of that endpoint, such as `/mcp`. */
  readonly path: string;
  /** Patterns of other paths, which keep their names at the upstream's origin; `/*` for all of them. */
  readonly others: readonly string[];
  /** Headers by which the gateway knows callers and conversations, or that the operator sets or forwards. In any case. */
  readonly callerHeaders: readonly string[];
  /** Returns the rules for the headers of a request for the endpoint. */
  readonly endpointHeaderRules: (raw: IncomingMessage) => RequestHeaderRules;
  /** Returns the rules for the headers of a request for another path. Never rejects. */
  readonly otherPathHeaderRules: (
    raw: IncomingMessage,
    path: string,
  ) => Promise<RequestHeaderRules>;
  /** Takes a place for a response, until that closes. @returns false if its caller gets none, and it is a refusal */
  readonly takesPlace: (request: PassedRequest) => boolean;
  /** Serves a request for the endpoint that is no POST, if it is not for the server. @returns `null` if it is */
  readonly serveElsewhere: (request: PassedRequest) => Promise<void> | null;
  /** Decides about a request for the endpoint that is no POST. @returns false if it has its response */
  readonly admitsEndpoint: (request: PassedRequest) => boolean;
  /** Decides about a request for another path, and may read it for that. @returns `null` if it has its response. Never rejects */
  readonly admitsOther: (request: PassedRequest) => Promise<PassedRequest | null>;
  /** Returns what rewrites the messages of the response to a request for the endpoint; `null` if nothing does. */
  readonly rewriteOf: (request: PassedRequest) => RewriteMessage | null;
  /**
   * Called with the URL for messages if a stream of the endpoint begins with it. The function that it returns is
   * called when the stream ends.
   */
  readonly onEndpoint: (endpoint: string) => () => void;
  /** Whether the gateway listens on loopback, so that browsers take its responses for those of this machine. */
  readonly onLoopback: boolean;
  /** The `Host` for the upstream; `null` for that of its URL. */
  readonly hostHeader: string | null;
  /** Rewrites a challenge of the server. */
  readonly challenge: (challenge: string) => string;
  /** Called with the status and the challenge of the response to a request with `Authorization`. */
  readonly onToken: (status: number, challenge: string | null) => void;
  /** Whose `X-Forwarded-*` are believed; empty for nobody's. */
  readonly trustedProxies: readonly string[];
  /** `null` if session ids are forwarded as the server sends them. */
  readonly sessions: SessionSealing | null;
  /** Identifies the caller. Never rejects. */
  readonly identify: (raw: IncomingMessage) => Promise<Caller | CallerRefusal>;
  /** Describes the caller of a request for metadata, which everybody can read. */
  readonly readerOf: (raw: IncomingMessage) => Caller;
  /** Calls back once the caller would be refused. @returns a function that ends that */
  readonly untilRefused: (raw: IncomingMessage, end: () => void) => () => void;
  /** How long the head of a response can take. The body has no limit. */
  readonly headersTimeoutMs: number;
  /** Called with the status of each response, and with the error of a request that got none. */
  readonly onOutcome: (outcome: number | Error) => void;
  /** Of a body that is streamed. A body that the edge has read is within its limit. */
  readonly maxBodyBytes: number;
  /** Counts the responses that a drain waits for. */
  readonly openResponses: OpenResponses;
  /** Called for each request that is sent to the upstream, and whether it is one for the endpoint. */
  readonly onPassed: (isEndpoint: boolean) => void;
  /** Called for each request that the upstream does not respond to. */
  readonly onFailure: (failure: PassThroughFailure) => void;
}

export interface PassThroughFailure {
  readonly httpStatus: FailureStatus | 500;
  /** For the operator. It can contain the address of the upstream. */
  readonly problem: string;
}
