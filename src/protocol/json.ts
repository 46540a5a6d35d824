/** JSON as a type: what a parsed message is made of, before anything is known about it. */

export type JsonValue = null | boolean | number | string | JsonValue[] | JsonObject;
export interface JsonObject {
  [member: string]: JsonValue;
}

/** True for a JSON object (not `null`, not an array). */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
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
