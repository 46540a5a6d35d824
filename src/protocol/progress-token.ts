/** What ties progress to a request: the requester chooses it, and everybody else repeats it (progress). */
import { isJsonInteger, type ExactNumber } from './json/json.ts';

export type ProgressToken = string | number | ExactNumber;

export function isProgressToken(value: unknown): value is ProgressToken {
  return typeof value === 'string' || isJsonInteger(value);
}
