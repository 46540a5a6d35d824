/** Identifiers of both sides as distinct types: the compiler refuses to send a client's request id upstream. */
import type { ExactNumber } from './json.ts';

declare const brand: unique symbol;
type Branded<Base, Name extends string> = Base & { readonly [brand]: Name };

/** Our id of one call over all its rounds: 128 random bits, base64url. */
export type CallId = Branded<string, 'CallId'>;
/** Our id of a home: a digest of its caller and route, equal in all replicas, or the id of the one call, or task, that is in it. */
export type HomeId = Branded<string, 'HomeId'>;
/** Our id of what one server said to the gateway: a digest, equal in all replicas. */
export type GreetingId = Branded<string, 'GreetingId'>;
/** The JSON-RPC id of a request that a modern client sent us. */
export type ClientRequestId = Branded<string | number | ExactNumber, 'ClientRequestId'>;
/** The JSON-RPC id of a request that we sent to a legacy server. */
export type UpstreamRequestId = Branded<string | number, 'UpstreamRequestId'>;
/** The JSON-RPC id of a request that a legacy server sent to us; `0` and strings are normal. */
export type ServerRequestId = Branded<string | number, 'ServerRequestId'>;
/** The legacy server's `Mcp-Session-Id`. It is a credential: it must not reach a client or a log. */
export type SessionId = Branded<string, 'SessionId'>;
/** The key under which a client sees an input request (`inputRequests` and `inputResponses`). */
export type InputKey = Branded<string, 'InputKey'>;

// Each of these takes a value for an identifier of its kind. Nothing is checked.

export const callId = (value: string): CallId => value as CallId;
export const homeId = (value: string): HomeId => value as HomeId;
/** The home of a call whose caller has none that is claimed: it is claimed only when another process goes on with the call. */
export const homeBornWith = (call: CallId): HomeId => homeId(call);
export const greetingId = (value: string): GreetingId => value as GreetingId;
export const clientRequestId = (value: string | number | ExactNumber): ClientRequestId =>
  value as ClientRequestId;
export const upstreamRequestId = (value: string | number): UpstreamRequestId =>
  value as UpstreamRequestId;
export const serverRequestId = (value: string | number): ServerRequestId =>
  value as ServerRequestId;
export const sessionId = (value: string): SessionId => value as SessionId;
export const inputKey = (value: string): InputKey => value as InputKey;
