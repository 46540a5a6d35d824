/** A client's request without its HTTP: who sent it, who waits for it (a waiter or a task), how its call ends, and the reply. */
import { z } from 'zod';
import type { Closed } from '../lib/clock.ts';
import type { ClientProfile } from '../protocol/translate/client-profile.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../protocol/json.ts';
import type { OfRequest } from '../ops/log.ts';
import type { Span, TraceContext } from '../ops/tracing.ts';
import type { ProgressToken } from '../protocol/meta.ts';
import type { ServerTask } from '../protocol/task.ts';
import type { InputErrors, JsonRpcErrorObject } from '../protocol/json-rpc.ts';

/** A modern request that the edge has checked. */
export interface EdgeRequest {
  readonly method: string;
  readonly params: JsonObject;
  /** Members of the request's `_meta` that go upstream: trace context and vendor keys. */
  readonly forwardedMeta: JsonObject;
  readonly profile: ClientProfile;
  readonly clientInfo: JsonObject | null;
  readonly logLevel: string | null;
  readonly progressToken: ProgressToken | null;
  readonly inputResponses: JsonObject | null;
  /** Answers that are errors: sagas have them. Absent if there is none. */
  readonly inputErrors?: InputErrors;
  readonly requestState: string | null;
  readonly caller: Caller;
  /** Present if the call has to become a task at once, if that is possible; with the lifetime that its client asks for. */
  readonly wantsTask?: { readonly ttlMs: number | null };
  /** Whether `tasks/get` waits until the task asks for input or is over. Drafts have that. */
  readonly untilSettled?: true;
  /** The task that waits in place of a client; absent for a request of a client. It stays in this process. */
  readonly task?: WaitingTask;
  /** The id of the trace that it belongs to, for the log. */
  readonly trace?: string;
  /** Its span in this process, if traces are exported. */
  readonly span?: Span;
  /** The span of the replica that relayed it, if traces are exported there. */
  readonly hop?: TraceContext;
}

/** Returns the field that names the trace of a request in the log. */
export function traceOf({ trace }: EdgeRequest): OfRequest {
  return trace === undefined ? {} : { trace };
}

/** The client's side of one request while the client waits. */
export interface Waiter {
  /** Sends a notification to the client. Does nothing after the reply. */
  notify(method: string, params: JsonObject): void;
  /**
   * Resolves when the client has read what was sent to it, or has left. `null` while the client keeps up.
   */
  readonly backlog: Promise<void> | null;
  /** Aborts if the client closes its connection before it has the whole response. */
  readonly closed: Closed;
}

/** Whether the client wants notifications while it waits: progress, or log messages. */
export function wantsNotifications({
  progressToken,
  logLevel,
}: Pick<EdgeRequest, 'progressToken' | 'logLevel'>): boolean {
  return progressToken !== null || logLevel !== null;
}

/** Creates a waiter that ignores notifications. @param closed what tells that nobody waits any more, if anything does */
export function waiterWithoutNotifications(closed: Closed = new AbortController().signal): Waiter {
  return { closed, backlog: null, notify: () => {} };
}

/** When a call becomes a task, if its client knows tasks. */
export interface Promotion {
  /**
   * How long the client waits for an outcome or a question before that, in ms; `null` if the call becomes one only when its
   * server runs it as a legacy task.
   */
  readonly afterMs: number | null;
  /** Whether a question makes it a task. If not, the client is asked as without tasks. */
  readonly onQuestion: boolean;
  /** How long the task can live, in ms. */
  readonly ttlMs: number;
}

/** The task that waits for a call in place of a client. */
export interface WaitingTask {
  /** How long it lives yet, in ms. */
  readonly leftMs: number;
  /** The credentials with which it would retry; `null` if it does not wait on: it stops the call, or has gone to another replica. */
  readonly credentialsKey: string | null;
  /** Whether no other process can go on with it. */
  readonly endsWithProcess: boolean;
  /** Whether it waits only to have the server cancel the call, which is not left to the server then. */
  readonly isStopping?: true;
  /**
   * Called when the server asks or withdraws something, or ends the call, while the task does not wait for it.
   * @param isWorking whether the server works on, and has no question open
   */
  moved(isWorking: boolean): void;
  /** Called with what the server says of its own task. */
  learned(task: ServerTask): void;
}

/** What the gateway replies to a request: a result, or an error. */
export type CallReply =
  | { readonly kind: 'result'; readonly result: JsonObject }
  | { readonly kind: 'failed'; readonly failure: Failure };

// JSON in messages that this gateway wrote itself: any content is accepted.

export const jsonObject = z.custom<JsonObject>(isJsonObject, 'Invalid input: expected object');
const jsonValue = z.custom<JsonValue>(
  (value) => value !== undefined,
  'Invalid input: expected a value',
);

export const jsonRpcError = z.strictObject({
  code: z.number(),
  message: z.string(),
  data: z.exactOptional(jsonValue),
});

/** Checks a reply that comes from another process or from a store. */
export const callReply = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('result'), result: jsonObject }),
  z.strictObject({
    kind: z.literal('failed'),
    failure: z.strictObject({
      error: jsonRpcError,
      httpStatus: z.int(),
      headers: z.exactOptional(z.record(z.string(), z.string())),
    }),
  }),
]) satisfies z.ZodType<CallReply>;

/**
 * How a caller is known.
 * - `verified`: a proxy or a token names the principal, whatever its credentials are
 * - `credentials`: its credentials are all that is known
 * - `local-user`: it has no credentials, and runs on the machine of a gateway that only that machine reaches
 * - `anonymous`: nothing tells it from others
 */
export type CallerKind = 'verified' | 'credentials' | 'local-user' | 'anonymous';

/** The start of the principal of a caller that only its credentials tell from others. */
export const CREDENTIALS_PREFIX = 'bearer:';
/** The key of all anonymous callers together, who are not a principal. */
export const ANONYMOUS_KEY = 'anonymous';
/** The key of the local user, who is not a principal. */
export const LOCAL_USER_KEY = 'local-user';

/** Tells how a caller is known from what identifies it. */
export function callerKindOf({
  principal,
  principalKey,
}: Pick<Caller, 'principal' | 'principalKey'>): CallerKind {
  if (principal !== null) {
    return principal.startsWith(CREDENTIALS_PREFIX) ? 'credentials' : 'verified';
  }
  return principalKey === LOCAL_USER_KEY ? 'local-user' : 'anonymous';
}

/** Why a request is refused before it is read. */
export interface CallerRefusal {
  readonly httpStatus: number;
  readonly message: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** A value of a claim that rules can ask for. */
export type ClaimValue = string | number | boolean;

/** What a verified token says of its caller, as far as rules ask for it. */
export interface Grants {
  readonly scopes: ReadonlySet<string>;
  /** The values of each claim that a rule names. */
  readonly claims: ReadonlyMap<string, readonly ClaimValue[]>;
}

/** A caller, as the configured identity source names it. */
export interface Caller {
  readonly kind: CallerKind;
  /** Equal for the same principal only. Session pools and quotas are keyed by it. */
  readonly principalKey: string;
  /** The principal that a pointer is bound to; `null` for an anonymous caller. */
  readonly principal: string | null;
  /** A digest of the credentials that go upstream. */
  readonly credentialsKey: string;
  /** The header that names the conversation (`sessions.key.header`); `null` if none does. */
  readonly conversation: string | null;
  /** The address of its client, for the audit; absent if it is not known. */
  readonly address?: string;
  /** Absent if no token was verified. */
  readonly grants?: Grants;
  /** Headers that go upstream with this request: credentials, and what the client addressed to the server. */
  readonly headers: Readonly<Record<string, string>>;
}

/** Builds a key that is equal for the same principal with the same credentials only. */
export function callerKey({ caller }: EdgeRequest): string {
  return JSON.stringify([caller.principalKey, caller.credentialsKey]);
}

/** The end of the upstream request. The result is the legacy one, unchanged. */
export type CallOutcome =
  | { readonly kind: 'complete'; readonly result: JsonObject }
  | { readonly kind: 'failed'; readonly failure: Failure };

/** An error for the client. `httpStatus` and `headers` count only if no byte of the response was sent. */
export interface Failure {
  readonly error: JsonRpcErrorObject;
  readonly httpStatus: number;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Why the gateway itself ends a call that could continue. */
export type RefusalReason = 'too_many_parked_calls' | 'too_many_rounds' | 'timeout' | 'draining';
