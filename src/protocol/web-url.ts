/** Which URLs a client may be sent to (elicitation, "Safe URL Handling"). */
import type { JsonValue } from './json/json.ts';

/** True for a URL that may be shown to a user. */
export function isWebUrl(value: JsonValue | undefined): value is string {
  return urlProblem(value) === null;
}

/**
 * Checks a URL that a user is to visit.
 * @returns what it must be and is not, or `null` for an absolute http or https URL without userinfo:
 *   a user takes `https://bank.example@evil.example/` for the bank's
 */
export function urlProblem(value: JsonValue | undefined): string | null {
  if (typeof value !== 'string' || !URL.canParse(value)) return NO_WEB_URL;
  if (!/^https?:$/.test(new URL(value).protocol)) return NO_WEB_URL;
  return hasUserinfo(value) ? 'a URL without a user name or password' : null;
}

/** True for a URL with something before an `@` in its authority, be it empty. */
export function hasUserinfo(value: JsonValue | undefined): boolean {
  if (typeof value !== 'string' || !URL.canParse(value)) return false;
  // Where browsers see an authority: they skip tabs and newlines, and read a backslash as a slash.
  const text = value.replace(/[\t\n\r]/g, '').trimStart();
  return /^[a-z][a-z0-9+.-]*:[\\/]*[^\\/?#]*@/i.test(text) && isHierarchical(value);
}

/** Of `mailto:` and the like an `@` is no userinfo. */
function isHierarchical(value: string): boolean {
  return new URL(value).host !== '';
}

const NO_WEB_URL = 'an http or https URL';
