/** JSON values as types, and checks of them. */
import { z } from 'zod';

export type JsonValue = null | boolean | number | ExactNumber | string | JsonValue[] | JsonObject;
export interface JsonObject {
  [member: string]: JsonValue;
}

declare const exact: unique symbol;
/** A number that JavaScript cannot hold, as it was written. `JSON.stringify` writes it unchanged. */
export interface ExactNumber {
  readonly [exact]: true;
}

/** From the ECMAScript proposal "JSON.parse source text access". The compiler does not know it yet. */
declare global {
  interface JSON {
    rawJSON(text: string): ExactNumber;
    isRawJSON(value: unknown): value is ExactNumber;
  }
}

/** Keeps a number as JSON writes it. */
export function exactNumber(text: string): ExactNumber {
  return JSON.rawJSON(text);
}

/** Tells whether a value is a number that JavaScript cannot hold. */
export function isExactNumber(value: unknown): value is ExactNumber {
  return JSON.isRawJSON(value);
}

/** Tells whether a value is a JSON number, of any size and precision. */
export function isJsonNumber(value: unknown): value is number | ExactNumber {
  return typeof value === 'number' || isExactNumber(value);
}

/** Tells whether a value is an integer, of any size. */
export function isJsonInteger(value: unknown): value is number | ExactNumber {
  return isExactNumber(value) ? /^-?\d+$/.test(JSON.stringify(value)) : Number.isInteger(value);
}

/** Tells whether a value is a JSON object (not `null`, an array or an `ExactNumber`). */
export function isJsonObject(value: unknown): value is JsonObject {
  return (
    typeof value === 'object' && value !== null && !Array.isArray(value) && !JSON.isRawJSON(value)
  );
}

/** Converts a JSON number to the nearest double. @returns `null` if the value is not a number */
export function numberOf(value: unknown): number | null {
  if (isExactNumber(value)) return Number(JSON.stringify(value));
  return typeof value === 'number' ? value : null;
}

/** Reads an own member that is a JSON object. @returns `undefined` if it is missing or something else */
export function objectMember(object: JsonObject, member: string): JsonObject | undefined {
  const value = Object.hasOwn(object, member) ? object[member] : undefined;
  return isJsonObject(value) ? value : undefined;
}

/** Returns an object without the named members: a copy, unless it has none of them. */
export function without(object: JsonObject, members: readonly string[]): JsonObject {
  if (!members.some((member) => Object.hasOwn(object, member))) return object;
  return Object.fromEntries(Object.entries(object).filter(([member]) => !members.includes(member)));
}

/** Schemas of JSON in messages that this gateway wrote itself: any content is accepted. */
export const jsonNumber = z.custom<number | ExactNumber>(
  isJsonNumber,
  'Invalid input: expected number',
);
export const jsonObject = z.custom<JsonObject>(isJsonObject, 'Invalid input: expected object');
export const jsonValue = z.custom<JsonValue>(
  (value) => value !== undefined,
  'Invalid input: expected a value',
);
