/**
 * References in the values of a configuration: `${NAME}` and `${NAME:-default}` anywhere in a text, and
 * `file:/path` for secrets. They are resolved after parsing, so what they bring in stays one text.
 */
import { type FieldPath, isSecretField } from './field-path.ts';
import type { Problem } from './problem.ts';

export interface ReferenceSources {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The content of a file that a `file:` reference names. Throws with a one-line message. */
  readonly readSecret: (path: string) => string;
}

export interface Resolved {
  readonly data: unknown;
  readonly problems: readonly Problem[];
  /** The text as written, for a value that came from elsewhere and may be a secret; else `null`. */
  writtenAt(path: FieldPath): string | null;
}

/** `$$` keeps a `${` as it is written. */
const REFERENCE = /(\$?)\$\{([^}]*)(\}?)/g;
const NAMED = /^([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?$/s;
const FILE_PREFIX = 'file:';

/** In: data as parsed. Out: a copy with every reference resolved, and the references that could not be. */
export function resolveReferences(data: unknown, sources: ReferenceSources): Resolved {
  const problems: Problem[] = [];
  const written = new Map<string, string>();
  const resolve = (value: unknown, path: FieldPath): unknown => {
    if (typeof value === 'string') {
      const resolved = resolveText(value, path);
      if (resolved !== value) written.set(JSON.stringify(path), value);
      return resolved;
    }
    if (Array.isArray(value)) return value.map((item, index) => resolve(item, [...path, index]));
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(
      Object.entries(value).map(([key, member]) => [key, resolve(member, [...path, key])]),
    );
  };
  const resolveText = (text: string, path: FieldPath): string => {
    const reading = isSecretField(path) && text.startsWith(FILE_PREFIX);
    try {
      const filled = fillIn(reading ? text.slice(FILE_PREFIX.length) : text, sources.env);
      return reading ? sources.readSecret(filled).replace(/\r?\n$/, '') : filled;
    } catch (error) {
      problems.push({ path, text: error instanceof Error ? error.message : String(error) });
      return text;
    }
  };
  const resolved = resolve(data, []);
  return {
    data: resolved,
    problems,
    writtenAt: (path) => written.get(JSON.stringify(path)) ?? null,
  };
}

function fillIn(text: string, env: ReferenceSources['env']): string {
  return text.replace(REFERENCE, (whole, escape: string, inside: string, end: string) => {
    if (escape !== '') return whole.slice(1);
    const [, name, fallback] = (end === '' ? null : NAMED.exec(inside)) ?? [];
    if (name === undefined) {
      throw new Error('expected ${NAME} or ${NAME:-default} (write $${ for a plain ${)');
    }
    const value = Object.hasOwn(env, name) ? env[name] : undefined;
    // As in a shell, a default also takes the place of an empty value.
    if (fallback !== undefined && (value === undefined || value === '')) return fallback;
    if (value !== undefined) return value;
    throw new Error(
      `expected the environment variable ${name}, which is not set (or write \${${name}:-default})`,
    );
  });
}
