/** Inputs that are nearly sound: sound ones, changed in a few places. */
import fc from 'fast-check';

interface Edit {
  readonly kind: 'insert' | 'delete' | 'replace' | 'repeat' | 'splice';
  /** Of the place, modulo the length of the text. */
  readonly at: number;
  readonly length: number;
  readonly text: string;
  /** Where the spliced part begins in the other seed. */
  readonly from: number;
}

const MAX_PLACE = 100_000;
const MAX_LENGTH = 40;

/**
 * Generates texts that differ from one of the seeds in a few places.
 * @param tokens what is put in besides any text: parts that mean something to the reader
 */
export function mutated(seeds: readonly string[], tokens: readonly string[]): fc.Arbitrary<string> {
  const edit = fc.record<Edit>({
    kind: fc.constantFrom('insert', 'delete', 'replace', 'repeat', 'splice'),
    at: fc.nat(MAX_PLACE),
    length: fc.nat(MAX_LENGTH),
    text: fc.oneof(fc.constantFrom(...tokens), fc.string({ unit: 'binary', maxLength: 4 })),
    from: fc.nat(MAX_PLACE),
  });
  const other = fc.constantFrom(...seeds);
  return fc
    .tuple(fc.constantFrom(...seeds), other, fc.array(edit, { maxLength: 6 }))
    .map(([seed, spliced, edits]) => edits.reduce((text, one) => edited(text, one, spliced), seed));
}

function edited(
  text: string,
  { kind, at, length, text: token, from }: Edit,
  other: string,
): string {
  const start = at % (text.length + 1);
  const [before, part, after] = [
    text.slice(0, start),
    text.slice(start, start + length),
    text.slice(start + length),
  ];
  switch (kind) {
    case 'insert':
      return before + token + part + after;
    case 'delete':
      return before + after;
    case 'replace':
      return before + token + after;
    case 'repeat':
      return before + part + part + after;
    case 'splice': {
      const begin = from % (other.length + 1);
      return before + other.slice(begin, begin + length) + after;
    }
  }
}

/** Generates places at which a text can be cut. */
export const cuts = fc.array(fc.nat(MAX_PLACE), { maxLength: 8 });

/** Cuts bytes into pieces. @param places modulo the number of bytes */
export function cutAt(bytes: Buffer, places: readonly number[]): Buffer[] {
  const ends = [...places.map((place) => place % (bytes.length + 1)), bytes.length];
  const sorted = ends.toSorted((one, other) => one - other);
  return sorted.map((end, index) => bytes.subarray(sorted[index - 1] ?? 0, end));
}

interface JsonEdit {
  readonly kind: 'replace' | 'delete' | 'add';
  readonly at: number;
  readonly value: unknown;
}

/**
 * Generates JSON texts that differ from one of the seeds in a few values.
 * @param values what is put in the place of others
 */
export function mutatedJson(
  seeds: readonly string[],
  values: readonly unknown[],
): fc.Arbitrary<string> {
  const edit = fc.record<JsonEdit>({
    kind: fc.constantFrom('replace', 'replace', 'delete', 'add'),
    at: fc.nat(MAX_PLACE),
    value: fc.oneof(fc.constantFrom(...values), fc.jsonValue({ maxDepth: 2 })),
  });
  return fc
    .tuple(fc.constantFrom(...seeds), fc.array(edit, { minLength: 1, maxLength: 3 }))
    .map(([seed, edits]) => {
      const root: unknown = JSON.parse(seed);
      for (const one of edits) change(root, one);
      return JSON.stringify(root);
    });
}

/** Changes one of the places that a JSON value has. */
function change(root: unknown, { kind, at, value }: JsonEdit): void {
  const places = placesIn(root);
  const place = places[at % Math.max(places.length, 1)];
  if (place === undefined) return;
  const { holder, name } = place;
  if (kind === 'delete') delete holder[name];
  else holder[kind === 'replace' ? name : `${name}-`] = structuredClone(value);
}

function placesIn(value: unknown): { holder: Record<string, unknown>; name: string }[] {
  if (typeof value !== 'object' || value === null) return [];
  const holder = value as Record<string, unknown>;
  return Object.keys(holder).flatMap((name) => [{ holder, name }, ...placesIn(holder[name])]);
}
