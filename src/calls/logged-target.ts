/** What the log calls the thing that a call is for. */
import type { JsonObject } from '../protocol/json/json.ts';

/**
 * In: method and params of a call. Out: the name of its tool or prompt, or the URI of its resource as far
 * as it says which one: the rest of a signed URL lets whoever reads it have the resource.
 */
export function loggedTarget(method: string, params: JsonObject): string {
  const target = method === 'resources/read' ? params['uri'] : params['name'];
  if (typeof target !== 'string') return '';
  return method === 'resources/read' ? withoutSecrets(target) : target;
}

/** Takes query, fragment and userinfo away (RFC 3986, 3); any text will do, since nobody checks URIs here. */
function withoutSecrets(uri: string): string {
  return uri.replace(/[?#].*$/s, '').replace(/^([^/\\]*[/\\]{2})[^/\\]*@/, '$1');
}
