/**
 * The types of values in a configuration file. Each says in its error what it expected, and has the name of
 * its type for the reference and the JSON Schema (`title`).
 */
import { ADDRESS, parseAddress } from '../../lib/address.ts';
import { z } from 'zod';
import {
  BYTE_SIZE,
  formatByteSize,
  parseByteSize,
  DURATION,
  formatDuration,
  parseDuration,
  parseRate,
  RATE,
} from '../units.ts';

/** The characters of names. */
export const NAME = /^[A-Za-z0-9_-]{1,64}$/;
export const HEADER_NAME = /^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$/;

/** The unit that the name of an option ends with in the code. */
type Unit = 'Ms' | 'Bytes';
declare const UNIT: unique symbol;
/** A field whose name has a unit in the code: `timeout` is `timeoutMs`. */
type WithUnit<Field, U extends Unit> = Field & { readonly [UNIT]: U };

const units = new WeakMap<object, Unit>();

function withUnit<Field extends z.ZodType, U extends Unit>(
  field: Field,
  unit: U,
): WithUnit<Field, U> {
  units.set(field, unit);
  return field as WithUnit<Field, U>;
}

type SectionShape = Readonly<Record<string, z.ZodType>>;
type CodeName<Key extends string, Field> = Field extends { readonly [UNIT]: infer U extends Unit }
  ? `${Key}${U}`
  : Key;
/** A section in the code: all options are present, with units in their names. */
type Section<S extends SectionShape> = {
  [Key in keyof S & string as CodeName<Key, S[Key]>]: z.output<S[Key]>;
};

/**
 * Describes a map of options. An unknown key is an error.
 *
 * @param shape the options by their names in the file
 * @param expected completes "expected ..." if the value is not a map
 */
export function section<const S extends SectionShape>(shape: S, expected = 'a map') {
  const names = Object.entries(shape).map(([key, field]) => [key, units.get(field) ?? ''] as const);
  return z
    .strictObject(shape, { error: expected })
    .transform(
      (read: Readonly<Record<string, unknown>>) =>
        Object.fromEntries(names.map(([key, unit]) => [key + unit, read[key]])) as Section<S>,
    );
}

/** Describes an option that can be omitted, which yields `null`. */
export function orNull<Field extends z.ZodType>(field: Field) {
  return field.optional().transform((read): z.output<Field> | null => read ?? null);
}

/**
 * Describes a list, which is empty by default.
 *
 * @param what the items, in the plural
 * @param max how many there can be
 */
export function list<Item extends z.ZodType>(
  what: string,
  item: Item,
  meaning: string,
  max: number | null = null,
) {
  const any = z.array(item, { error: `a list of ${what}` });
  const items = max === null ? any : any.max(max, { error: `at most ${max} ${what}` });
  return items
    .meta({ title: `list of ${what}` })
    .prefault([])
    .describe(meaning);
}

/** RFC 6749, section 3.3. */
const SCOPE = /^[\x21\x23-\x5b\x5d-\x7e]{1,128}$/;

/** Describes a list of scopes of access tokens. */
export function scopes(meaning: string) {
  return list('scopes', text(SCOPE, 'a scope', 'scope'), meaning);
}

/**
 * Makes a transformation of a parser.
 *
 * @param parse returns `null` for what it cannot parse
 * @param expected completes "expected ..." for that
 */
function parsedBy<Written, Parsed>(parse: (written: Written) => Parsed | null, expected: string) {
  return (written: Written, context: z.core.$RefinementCtx<Written>): Parsed => {
    const parsed = parse(written);
    if (parsed !== null) return parsed;
    context.addIssue({ code: 'custom', message: expected });
    return z.NEVER;
  };
}

export interface Bounds {
  readonly min: number;
  readonly max: number;
}

/** A quantity as an integer in its smallest unit, or as text. It yields the smallest unit. */
interface Quantity {
  readonly name: string;
  readonly pattern: RegExp;
  readonly parse: (text: string) => number | null;
  readonly format: (value: number) => string;
}

const DURATION_QUANTITY: Quantity = {
  name: 'duration',
  pattern: DURATION,
  parse: parseDuration,
  format: formatDuration,
};
const SIZE_QUANTITY: Quantity = {
  name: 'size',
  pattern: BYTE_SIZE,
  parse: parseByteSize,
  format: formatByteSize,
};
const COUNT_QUANTITY: Quantity = {
  name: 'whole number',
  pattern: /^\d{1,15}$/,
  parse: (text) => (/^\d{1,15}$/.test(text) ? Number(text) : null),
  format: String,
};

/**
 * Describes a duration. In the code its name ends with `Ms`: `timeout` is `timeoutMs`.
 *
 * @param fallback the default, as written in a file (`5s`)
 * @param from the lower bound, as written
 * @param to the upper bound, as written
 * @param meaning the description for the reference and the JSON Schema
 */
export function duration(fallback: string, from: string, to: string, meaning: string) {
  const bounds = { min: parseDuration(from) ?? 0, max: parseDuration(to) ?? 0 };
  return withUnit(
    quantity(DURATION_QUANTITY, bounds, fallback).prefault(fallback).describe(meaning),
    'Ms',
  );
}

/** Describes a duration as `duration` does, or `off`, which yields `null`. */
export function durationOrOff(fallback: string, from: string, to: string, meaning: string) {
  const bounds = { min: parseDuration(from) ?? 0, max: parseDuration(to) ?? 0 };
  const field = orWord('off', null, quantity(DURATION_QUANTITY, bounds, from), {
    expected: `a duration from ${from} to ${to}, or off`,
    title: `duration, ${from} to ${to}`,
  });
  return withUnit(field.prefault(fallback).describe(meaning), 'Ms');
}

/**
 * Describes a size. In the code its name ends with `Bytes`: `maxBody` is `maxBodyBytes`.
 *
 * @param fallback the default, as written in a file (`4MiB`)
 * @param from the lower bound, as written
 * @param to the upper bound, as written
 * @param meaning the description for the reference and the JSON Schema
 */
export function size(fallback: string, from: string, to: string, meaning: string) {
  const bounds = { min: parseByteSize(from) ?? 0, max: parseByteSize(to) ?? 0 };
  return withUnit(
    quantity(SIZE_QUANTITY, bounds, fallback).prefault(fallback).describe(meaning),
    'Bytes',
  );
}

export function count(fallback: number, bounds: Bounds, meaning: string) {
  return wholeNumber(bounds, fallback).prefault(fallback).describe(meaning);
}

/** Describes a count that has no default. */
export function wholeNumber(bounds: Bounds, example: number) {
  return quantity(COUNT_QUANTITY, bounds, example);
}

/** Describes a count as `count` does, or `auto`. */
export function countOrAuto(fallback: number, bounds: Bounds, meaning: string) {
  return countOr('auto', 'auto' as const, bounds)
    .prefault(fallback)
    .describe(meaning);
}

/** Describes a count as `count` does, or `off`, which yields `null`. */
export function countOrOff(fallback: number | 'off', bounds: Bounds, meaning: string) {
  return countOr('off', null, bounds).prefault(fallback).describe(meaning);
}

function countOr<Meaning>(word: string, meaning: Meaning, { min, max }: Bounds) {
  return orWord(word, meaning, wholeNumber({ min, max }, min), {
    expected: `a whole number from ${min} to ${max}, or ${word}`,
    title: `whole number, ${min} to ${max}`,
  });
}

/** Describes a rate, or `off`, which is the default and yields `null`. */
export function rateOrOff(meaning: string) {
  const expected = 'requests in a time of at most a day, such as 100/s or 60/1m, or off';
  const rate = written(RATE, expected).transform(parsedBy(parseRate, expected));
  return orWord('off', null, rate, { expected, title: 'rate such as `60/1m`' })
    .prefault('off')
    .describe(meaning);
}

/** Describes a value, or a word in its place, which yields what it means. */
function orWord<Meaning, Field extends z.ZodType>(
  word: string,
  meaning: Meaning,
  field: Field,
  { expected, title }: { readonly expected: string; readonly title: string },
) {
  return z
    .union([z.literal(word).transform(() => meaning), field], { error: expected })
    .meta({ title: `${title}, or \`${word}\`` });
}

function quantity(
  { name, pattern, parse, format }: Quantity,
  { min, max }: Bounds,
  example: string | number,
) {
  const expected = `a ${name} from ${format(min)} to ${format(max)}, such as ${example}`;
  return z
    .union(
      [
        z.int().min(min, { error: expected }).max(max, { error: expected }),
        z.string().regex(pattern, { error: expected }),
      ],
      { error: expected },
    )
    .transform(
      parsedBy((written) => {
        const value = typeof written === 'number' ? written : parse(written);
        return value !== null && value >= min && value <= max ? value : null;
      }, expected),
    )
    .meta({ title: `${name}, ${format(min)} to ${format(max)}` });
}

/** Describes a boolean. `"true"` is accepted as well, since variables are strings. */
export function flag(fallback: boolean, meaning: string) {
  return z
    .union([z.boolean(), z.enum(['true', 'false'])], { error: 'true or false' })
    .transform((value) => value === true || value === 'true')
    .meta({ title: '`true` or `false`' })
    .prefault(fallback)
    .describe(meaning);
}

export function choice<const Words extends readonly string[]>(
  words: Words,
  fallback: Words[number],
  meaning: string,
) {
  return z
    .enum(words, { error: `one of ${words.join(', ')}` })
    .meta({ title: words.map((word) => `\`${word}\``).join(', ') })
    .default(fallback)
    .describe(meaning);
}

/** Describes a string with a pattern. @param expected completes "expected ..." */
export function text(pattern: RegExp, expected: string, title: string) {
  return z
    .string({ error: (issue) => (issue.input === undefined ? expected : `${expected}, in quotes`) })
    .regex(pattern, { error: expected })
    .meta({ title });
}

const ADDRESS_EXPECTED =
  'an address such as 127.0.0.1:8080, :8080 or "[::1]:8080", with a port up to 65535';

export function address(expected = ADDRESS_EXPECTED) {
  return written(ADDRESS, expected)
    .transform(parsedBy(parseAddress, expected))
    .meta({ title: 'address' });
}

/** Describes an address, or `off` for no listener, which yields `null`. */
export function addressOrOff() {
  const expected = `${ADDRESS_EXPECTED}, or off`;
  return orWord('off', null, address(expected), { expected, title: 'address' });
}

function written(pattern: RegExp, expected: string) {
  return z.string({ error: expected }).regex(pattern, { error: expected });
}

/** Describes a string that a parser reads. @param expected completes "expected ..." */
export function parsed<Parsed>(
  parse: (written: string) => Parsed | null,
  expected: string,
  title: string,
) {
  return z.string({ error: expected }).transform(parsedBy(parse, expected)).meta({ title });
}

/** Describes a string that a function checks. @param expected completes "expected ..." */
export function checked(isValid: (written: string) => boolean, expected: string, title: string) {
  return z.string({ error: expected }).refine(isValid, { error: expected }).meta({ title });
}
