/**
 * Checks the shape of JSON that this gateway wrote itself and that comes back authenticated. A schema library would copy
 * every level and explain each fault; here the copy costs more than all the rest, and nobody reads the explanation.
 */
import { isJsonObject } from '../protocol/json.ts';

export type ShapeGuard<Value> = (value: unknown) => value is Value;
/** What a guard lets through. */
export type Guarded<Of> = Of extends ShapeGuard<infer Value> ? Value : never;

type MemberGuards = Readonly<Record<string, ShapeGuard<unknown>>>;
type ObjectOf<Required extends MemberGuards, Optional extends MemberGuards> = {
  readonly [Name in keyof Required]: Guarded<Required[Name]>;
} & { readonly [Name in keyof Optional]?: Guarded<Optional[Name]> };

export const isText = (value: unknown): value is string => typeof value === 'string';
export const isNonEmptyText = (value: unknown): value is string =>
  typeof value === 'string' && value !== '';
export const isFiniteNumber = (value: unknown): value is number => Number.isFinite(value);
export const isCount = (value: unknown): value is number =>
  Number.isSafeInteger(value) && (value as number) >= 0;
export const isBoolean = (value: unknown): value is boolean => typeof value === 'boolean';

/** An object with these members and no others. */
export function objectOf<
  Required extends MemberGuards,
  // eslint-disable-next-line @typescript-eslint/no-generated-empty-object-type -- it has no members
  Optional extends MemberGuards = Record<never, never>,
>(required: Required, optional?: Optional): ShapeGuard<ObjectOf<Required, Optional>> {
  const must = Object.entries(required);
  const may = new Map(Object.entries<ShapeGuard<unknown>>(optional ?? {}));
  return (value): value is ObjectOf<Required, Optional> => {
    if (!isJsonObject(value)) return false;
    for (const [name, guard] of must) {
      if (!Object.hasOwn(value, name) || !guard(value[name])) return false;
    }
    for (const name in value) {
      if (!Object.hasOwn(required, name) && may.get(name)?.(value[name]) !== true) return false;
    }
    return true;
  };
}

/** An object whose members all have such values. */
export function recordOf<Value>(
  guard: ShapeGuard<Value>,
): ShapeGuard<Readonly<Record<string, Value>>> {
  return (value): value is Readonly<Record<string, Value>> =>
    isJsonObject(value) && Object.values(value).every(guard);
}

export function listOf<Element>(guard: ShapeGuard<Element>): ShapeGuard<readonly Element[]> {
  return (value): value is readonly Element[] => Array.isArray(value) && value.every(guard);
}

export function oneOf<const Values extends readonly unknown[]>(
  ...values: Values
): ShapeGuard<Values[number]> {
  return (value): value is Values[number] => values.includes(value);
}

export function either<const Guards extends readonly ShapeGuard<unknown>[]>(
  ...guards: Guards
): ShapeGuard<Guarded<Guards[number]>> {
  return (value): value is Guarded<Guards[number]> => guards.some((guard) => guard(value));
}
