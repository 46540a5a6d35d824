/** A client's request without its HTTP, the client that waits for it, and the reply. */
import { z } from 'zod';
import type { ClientProfile } from '../protocol/translate/client-profile.ts';
import { jsonObject, jsonValue, type JsonObject } from '../protocol/json/json.ts';
import type { ProgressToken } from '../protocol/meta.ts';
import type { Caller } from './caller.ts';
import type { Failure } from './outcome.ts';

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
  readonly requestState: string | null;
  readonly caller: Caller;
}

/** The client's side of one request while the client waits. */
export interface Leg {
  /** Sends a notification to the client. Does nothing after the reply. */
  notify(method: string, params: JsonObject): void;
  /**
   * Resolves when the client has read what was sent to it, or has left. `null` while the client keeps up.
   */
  readonly backlog: Promise<void> | null;
  /** Aborts if the client closes its connection before it has the whole response. */
  readonly closed: AbortSignal;
}

/** What the gateway replies to a request: a result, or an error. */
export type CallReply =
  | { readonly kind: 'result'; readonly result: JsonObject }
  | { readonly kind: 'failed'; readonly failure: Failure };

/** Checks a reply that comes from another process or from a store. */
export const callReply = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('result'), result: jsonObject }),
  z.strictObject({
    kind: z.literal('failed'),
    failure: z.strictObject({
      error: z.strictObject({
        code: z.number(),
        message: z.string(),
        data: z.exactOptional(jsonValue),
      }),
      httpStatus: z.int(),
      headers: z.exactOptional(z.record(z.string(), z.string())),
    }),
  }),
]) satisfies z.ZodType<CallReply>;
