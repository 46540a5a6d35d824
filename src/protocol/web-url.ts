/** URLs that a user can be sent to (elicitation, "Safe URL Handling"). */
import type { JsonValue } from './json.ts';

/** Tells whether a URL can be shown to a user. */
export function isWebUrl(value: JsonValue | undefined): value is string {
  return urlProblem(value) === null;
}

/**
 * Checks a URL for a user to visit. It must be an absolute http or https URL without userinfo: users mistake
 * `https://bank.example@evil.example/` for the bank's.
 * @returns what was expected, or `null` if the URL is safe
 */
export function urlProblem(value: JsonValue | undefined): string | null {
  if (typeof value !== 'string' || !URL.canParse(value)) return NO_WEB_URL;
  if (!/^https?:$/.test(new URL(value).protocol)) return NO_WEB_URL;
  return hasUserinfo(value) ? 'a URL without a user name or password' : null;
}

/** Tells whether the authority of a URL has an `@`, even with nothing before it. */
export function hasUserinfo(value: JsonValue | undefined): boolean {
  if (typeof value !== 'string' || !URL.canParse(value)) return false;
  // As browsers read it: they skip leading control characters and spaces, and tabs and newlines anywhere,
  // and treat a backslash as a slash (WHATWG URL, "basic URL parser").
  const text = value.replace(/[\t\n\r]/g, '').replace(LEADING_CONTROLS, '');
  return /^[a-z][a-z0-9+.-]*:[\\/]*[^\\/?#]*@/i.test(text) && isHierarchical(value);
}

/** The leading characters that URL parsers remove. */
const LEADING_CONTROLS = /^[\u0000-\u0020]+/;

/** The `@` of `mailto:` and similar URLs is not userinfo. */
function isHierarchical(value: string): boolean {
  return new URL(value).host !== '';
}

const NO_WEB_URL = 'an http or https URL';
