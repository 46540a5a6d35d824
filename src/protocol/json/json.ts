/** JSON as a type: what a parsed message is made of, before anything is known about it. */

export type JsonValue = null | boolean | number | ExactNumber | string | JsonValue[] | JsonObject;
export interface JsonObject {
  [member: string]: JsonValue;
}

declare const exact: unique symbol;
/** A number that JavaScript cannot hold, as it was written; `JSON.stringify` writes it like that. */
export interface ExactNumber {
  readonly [exact]: true;
}

/** Of the ECMAScript proposal "JSON.parse source text access"; the compiler does not know it yet. */
declare global {
  interface JSON {
    rawJSON(text: string): ExactNumber;
    isRawJSON(value: unknown): value is ExactNumber;
  }
}

/** In: a number as JSON writes it. */
export function exactNumber(text: string): ExactNumber {
  return JSON.rawJSON(text);
}

export function isExactNumber(value: unknown): value is ExactNumber {
  return JSON.isRawJSON(value);
}

export function isJsonNumber(value: unknown): value is number | ExactNumber {
  return typeof value === 'number' || isExactNumber(value);
}

/** True for an integer of any size. */
export function isJsonInteger(value: unknown): value is number | ExactNumber {
  return isExactNumber(value) ? /^-?\d+$/.test(JSON.stringify(value)) : Number.isInteger(value);
}

/** True for a JSON object (not `null`, not an array, not a number that is kept as it was written). */
export function isJsonObject(value: unknown): value is JsonObject {
  return (
    typeof value === 'object' && value !== null && !Array.isArray(value) && !JSON.isRawJSON(value)
  );
}

/** The nearest number that JavaScript holds; `null` for anything that is no number. */
export function numberOf(value: unknown): number | null {
  if (isExactNumber(value)) return Number(JSON.stringify(value));
  return typeof value === 'number' ? value : null;
}

/** The member of an object when the object itself has it and it is a JSON object; else `undefined`. */
export function objectMember(object: JsonObject, member: string): JsonObject | undefined {
  const value = Object.hasOwn(object, member) ? object[member] : undefined;
  return isJsonObject(value) ? value : undefined;
}

/** A copy of the object without the named members. */
export function without(object: JsonObject, members: readonly string[]): JsonObject {
  return Object.fromEntries(Object.entries(object).filter(([member]) => !members.includes(member)));
}
