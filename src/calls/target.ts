/** What a call is for: its tool, prompt or resource, as pointers seal it and as the log shows it. */
import { sha256 } from '../lib/sha256.ts';
import type { EdgeRequest } from '../model/request.ts';
import type { JsonObject } from '../protocol/json/json.ts';
import { principalTag, requestDigest } from '../seal/digests.ts';
import type { ExpectedRequest } from '../seal/seal.ts';

/** The longest name or URI that a pointer holds. */
const MAX_SEALED_TARGET = 200;

/** @returns the name of the tool or prompt, or the URI of the resource */
export function targetOf(params: JsonObject): string {
  const target = params['name'] ?? params['uri'];
  return typeof target === 'string' ? target : '';
}

/**
 * Returns the target as far as it may be logged.
 * @returns the name of the tool or prompt, or as much of the URI as says which resource it is: whoever reads
 *   the rest of a signed URL can get the resource
 */
export function loggedTarget(method: string, params: JsonObject): string {
  const target = method === 'resources/read' ? params['uri'] : params['name'];
  if (typeof target !== 'string') return '';
  return method === 'resources/read' ? withoutSecrets(target) : target;
}

/**
 * Describes a request as its pointers are bound to it.
 * @param audience the deployment, with whose name principals are hashed
 */
export function expectedRequest(
  { method, params, caller }: EdgeRequest,
  route: string,
  audience: string,
): ExpectedRequest {
  const target = targetOf(params);
  return {
    route,
    method,
    // A long URI would make the pointer too large, and the digest covers it anyway.
    target: target.length <= MAX_SEALED_TARGET ? target : `sha256:${sha256(target)}`,
    digest: requestDigest(method, params),
    principal: principalTag(audience, caller.principal),
  };
}

/** Removes query, fragment and userinfo (RFC 3986, section 3). Any text is accepted: URIs are not checked here. */
function withoutSecrets(uri: string): string {
  return uri.replace(/[?#].*$/s, '').replace(/^([^/\\]*[/\\]{2})[^/\\]*@/, '$1');
}
