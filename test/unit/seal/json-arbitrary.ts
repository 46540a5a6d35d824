/** Arbitrary JSON for properties, and the same JSON with its members in another order. */
import fc from 'fast-check';
import { isJsonObject, type JsonObject, type JsonValue } from '../../../src/protocol/json.ts';

const { value } = fc.letrec<{ value: JsonValue; object: JsonObject }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.constant(null),
    fc.boolean(),
    fc.integer(),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.string({ unit: 'grapheme' }),
    fc.array(tie('value'), { maxLength: 4 }),
    tie('object'),
  ),
  object: fc.dictionary(fc.string({ unit: 'grapheme' }), tie('value'), { maxKeys: 5 }),
}));

export const jsonValue: fc.Arbitrary<JsonValue> = value;
export const jsonObject: fc.Arbitrary<JsonObject> = fc.dictionary(
  fc.string({ unit: 'grapheme' }),
  value,
  { maxKeys: 6 },
);

/** An equal object whose members stand in the opposite order, at every depth. */
export function reordered(object: JsonObject): JsonObject {
  const turned = (part: JsonValue): JsonValue => {
    if (Array.isArray(part)) return part.map(turned);
    return isJsonObject(part) ? reordered(part) : part;
  };
  return Object.fromEntries(
    Object.entries(object)
      .reverse()
      .map(([member, content]) => [member, turned(content)]),
  );
}
