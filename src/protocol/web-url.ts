/** Which URLs a client may be sent to. */
import type { JsonValue } from './json/json.ts';

/** True for an absolute http or https URL: no other is shown to a user (elicitation, "Safe URL Handling"). */
export function isWebUrl(value: JsonValue | undefined): value is string {
  if (typeof value !== 'string' || !URL.canParse(value)) return false;
  return /^https?:$/.test(new URL(value).protocol);
}
