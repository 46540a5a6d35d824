/**
 * By whom, and by what request, is remembered what a server shows. What clients make up is digested, so
 * that no key is longer than another.
 */
import { profileKey } from '../protocol/translate/client-profile.ts';
import { without, type JsonValue } from '../protocol/json/json.ts';
import { upstreamParams } from '../protocol/translate/upstream-params.ts';
import { canonicalJson } from '../protocol/json/canonical.ts';
import type { EdgeRequest } from '../model/request.ts';
import { sha256 } from '../lib/sha256.ts';

/** Members of `_meta` that go upstream, and tell where a request is from, not what it asks for. */
const TRACE_CONTEXT = ['traceparent', 'tracestate', 'baggage'];

/** A text that is equal for the same principal with the same credentials only. */
export function callerKey({ caller }: EdgeRequest): string {
  return JSON.stringify([caller.principalKey, caller.credentialsKey]);
}

/** The same, for what may also differ by what a client declares. */
export function clientKey(request: EdgeRequest): string {
  return digest([callerKey(request), profileKey(request.profile), request.clientInfo]);
}

/** The same, for answers to a list method: equal where a server is asked for the same (caching, "Cache Key"). */
export function listKey(request: EdgeRequest): string {
  const forwardedMeta = without(request.forwardedMeta, TRACE_CONTEXT);
  const asked = upstreamParams(request.params, { progressToken: null, forwardedMeta });
  return digest([clientKey(request), request.method, asked]);
}

function digest(value: JsonValue): string {
  return sha256(canonicalJson(value));
}
