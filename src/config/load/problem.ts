/** What is wrong with a configuration: problems by field, the error that lists them, and what may be meant instead. */

export type FieldPath = readonly (string | number)[];

export interface Problem {
  readonly path: FieldPath;
  /** True if the problem is the key, not its value. */
  readonly atKey?: boolean;
  /** The other fields that the problem follows from. */
  readonly reads?: readonly FieldPath[];
  /** One line without secrets. */
  readonly text: string;
}

export type ConfigErrorCode = 'config_invalid' | 'config_unreadable';

const MAX_LINES = 20;
const PLAIN_KEY = /^[A-Za-z_][A-Za-z0-9_-]*$/;
/** Fields whose values are secrets: sealing keys, headers such as `Authorization`, variables of servers, Redis credentials. */
const SECRET_FIELDS: readonly (readonly (string | null)[])[] = [
  ['seal', 'keys'],
  ['routes', null, 'upstream', 'headers'],
  ['routes', null, 'upstream', 'env'],
  ['routes', null, 'upstream', 'tokenExchange', 'clientSecret'],
  ['redis', 'url'],
  ['redis', 'tls', 'ca'],
  ['redis', 'tls', 'cert'],
  ['redis', 'tls', 'key'],
  ['redis', 'sentinel', 'username'],
  ['redis', 'sentinel', 'password'],
];

/** Thrown for an invalid configuration. `message` has one line per problem, without secrets, and not too many. */
export class ConfigError extends Error {
  readonly code: ConfigErrorCode;
  /** All of them. */
  readonly problems: readonly string[];

  constructor(code: ConfigErrorCode, problems: readonly string[]) {
    const more = problems.slice(MAX_LINES).length;
    const last = more > 0 ? [`and ${more} more problems`] : [];
    super([...problems.slice(0, MAX_LINES), ...last].join('\n'));
    this.name = 'ConfigError';
    this.code = code;
    this.problems = problems;
  }
}

/** Formats a path: `['routes', 0, 'path']` is `routes[0].path`. */
export function formatPath(path: FieldPath): string {
  let text = '';
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`;
    else if (!PLAIN_KEY.test(step)) text += `[${JSON.stringify(step.slice(0, 64))}]`;
    else text += text === '' ? step : `.${step}`;
  }
  return text;
}

/** Tells whether a field is secret: it must not appear in messages, and can be a `file:` reference. */
export function isSecretField(path: FieldPath): boolean {
  return SECRET_FIELDS.some(
    (field) =>
      path.length >= field.length &&
      field.every((step, index) => step === null || step === path[index]),
  );
}

/** Reads the value at a path, own members only. @returns `undefined` if it is missing */
export function lookUp(data: unknown, path: FieldPath): unknown {
  let value = data;
  for (const step of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step))
      return undefined;
    value = (value as Record<string | number, unknown>)[step];
  }
  return value;
}

/** A host, with or without a port and a path. */
const SCHEMELESS = /^(?:localhost|[\w-]+(?:\.[\w-]+)+|[\w-]+(?=:\d))(?::\d+)?(?:\/[^@]*)?$/;

/** Finds the URL that is meant by an address without a scheme. @returns `null` if the text is not such an address */
export function urlMeant(text: string): string | null {
  return SCHEMELESS.test(text) ? `http://${text}` : null;
}

/** Finds the size that is meant by one with a unit of others: `16MB` is `16MiB`. @returns `null` if the text is none */
export function sizeMeant(text: string): string | null {
  const [, number, unit = ''] = /^(\d{1,15}) ?([KMG])B?$/i.exec(text.trim()) ?? [];
  return number === undefined ? null : `${number}${unit.toUpperCase()}iB`;
}

/** No key or word is longer. */
const MAX_LENGTH = 64;

/** Finds the known word that is most similar to the written one. @returns `null` if none is similar enough */
export function nearest(written: string, known: readonly string[]): string | null {
  if (written.length > MAX_LENGTH) return null;
  const wanted = written.toLowerCase();
  let best: { word: string; distance: number } | null = null;
  for (const word of known) {
    const longer = Math.max(wanted.length, word.length);
    const allowed = Math.max(1, Math.floor(longer / 3));
    // The distance is at least the difference of the lengths.
    if (2 * longer - wanted.length - word.length > allowed) continue;
    const distance = editDistance(wanted, word.toLowerCase());
    if (distance <= allowed && (best === null || distance < best.distance)) {
      best = { word, distance };
    }
  }
  return best?.word ?? null;
}

/** Computes the optimal string alignment distance: insertions, deletions, substitutions and adjacent swaps. */
function editDistance(left: string, right: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: right.length + 1 }, (_, column) => column);
  for (let row = 1; row <= left.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= right.length; column += 1) {
      const same = left[row - 1] === right[column - 1];
      const swapped =
        row > 1 &&
        column > 1 &&
        left[row - 1] === right[column - 2] &&
        left[row - 2] === right[column - 1];
      current[column] = Math.min(
        at(last, column) + 1,
        at(current, column - 1) + 1,
        at(last, column - 1) + (same ? 0 : 1),
        swapped ? at(beforeLast, column - 2) + 1 : Infinity,
      );
    }
    beforeLast = last;
    last = current;
  }
  return at(last, right.length);
}

function at(row: readonly number[], column: number): number {
  return row[column] ?? Infinity;
}
