/** What a request names: a tool, a prompt or a resource. */
import type { JsonObject } from './json.ts';

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

/** Removes query, fragment and userinfo (RFC 3986, section 3). Any text is accepted: URIs are not checked here. */
function withoutSecrets(uri: string): string {
  return uri.replace(/[?#].*$/s, '').replace(/^([^/\\]*[/\\]{2})[^/\\]*@/, '$1');
}
