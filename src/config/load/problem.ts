/** What is wrong with a configuration: problems by field, and the error that lists them. */

export type FieldPath = readonly (string | number)[];

export interface Problem {
  readonly path: FieldPath;
  /** True if the problem is the key, not its value. */
  readonly atKey?: boolean;
  /** One line without secrets. */
  readonly text: string;
}

export type ConfigErrorCode = 'config_invalid' | 'config_unreadable';

const MAX_LINES = 20;
const PLAIN_KEY = /^[A-Za-z_][A-Za-z0-9_-]*$/;
/** Fields whose values are secrets: sealing keys, headers such as `Authorization`, Redis credentials. */
const SECRET_FIELDS: readonly (readonly (string | null)[])[] = [
  ['seal', 'keys'],
  ['routes', null, 'upstream', 'headers'],
  ['redis', 'url'],
  ['redis', 'tls', 'ca'],
  ['redis', 'tls', 'cert'],
  ['redis', 'tls', 'key'],
  ['redis', 'sentinel', 'username'],
  ['redis', 'sentinel', 'password'],
];

/** Thrown for an invalid configuration. `message` has one line per problem, without secrets. */
export class ConfigError extends Error {
  readonly code: ConfigErrorCode;
  readonly problems: readonly string[];

  constructor(code: ConfigErrorCode, problems: readonly string[]) {
    super(joinLines(problems));
    this.name = 'ConfigError';
    this.code = code;
    this.problems = problems;
  }
}

function joinLines(problems: readonly string[]): string {
  const more = problems.length - MAX_LINES;
  const shown = problems.slice(0, MAX_LINES);
  return (more > 0 ? [...shown, `and ${more} more problems`] : shown).join('\n');
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
