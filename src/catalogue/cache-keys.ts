/** Cache keys of what a server shows to a caller. Client data is hashed, so that keys have a fixed length. */
import { profileKey } from '../protocol/translate/client-profile.ts';
import { without, type JsonValue } from '../protocol/json/json.ts';
import { upstreamParams } from '../protocol/translate/upstream-params.ts';
import { canonicalJson } from '../protocol/json/canonical.ts';
import type { EdgeRequest } from '../model/request.ts';
import { sha256 } from '../lib/sha256.ts';

/** Members of `_meta` that go upstream and do not change what a request asks for. */
const TRACE_CONTEXT = ['traceparent', 'tracestate', 'baggage'];

/** Builds a key that is equal for the same principal with the same credentials only. */
export function callerKey({ caller }: EdgeRequest): string {
  return JSON.stringify([caller.principalKey, caller.credentialsKey]);
}

/** Builds a key that also depends on what the client declares. */
export function clientKey(request: EdgeRequest): string {
  return digest([callerKey(request), profileKey(request.profile), request.clientInfo]);
}

/** Builds the key of a list: equal if the server is asked for the same (caching, "Cache Key"). */
export function listKey(request: EdgeRequest): string {
  const forwardedMeta = without(request.forwardedMeta, TRACE_CONTEXT);
  const params = upstreamParams(request.params, { progressToken: null, forwardedMeta });
  return digest([clientKey(request), request.method, params]);
}

function digest(value: JsonValue): string {
  return sha256(canonicalJson(value));
}
