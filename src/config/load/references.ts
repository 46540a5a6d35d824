/**
 * Resolves references in values: `${NAME}` and `${NAME:-default}` anywhere in a string, and `file:/path` for
 * secrets. They are resolved after parsing, so that a resolved value cannot add YAML.
 */
import { messageOf } from '../../lib/shown-text.ts';
import { type FieldPath, isSecretField, type Problem } from './problem.ts';

export interface ReferenceSources {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Reads the file of a `file:` reference. @throws Error with a one-line message */
  readonly readSecret: (path: string) => string;
}

export interface ResolvedData {
  readonly data: unknown;
  readonly problems: readonly Problem[];
  /** The names of all variables that are referred to, whether they are set or not. */
  readonly variables: ReadonlySet<string>;
  /** The text as written, if the value is resolved and can be a secret; otherwise `null`. */
  writtenAt(path: FieldPath): string | null;
}

/** `$${` stands for a plain `${`. */
const REFERENCE = /(\$?)\$\{([^}]*)(\}?)/g;
const NAMED = /^([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?$/s;
const FILE_PREFIX = 'file:';

/** Copies parsed data with all references resolved, and reports those that cannot be. */
export function resolveReferences(data: unknown, sources: ReferenceSources): ResolvedData {
  const problems: Problem[] = [];
  const written = new Map<string, string>();
  const variables = new Set<string>();
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
      const filled = fillIn(
        reading ? text.slice(FILE_PREFIX.length) : text,
        sources.env,
        variables,
      );
      return reading ? sources.readSecret(filled).replace(/\r?\n$/, '') : filled;
    } catch (error) {
      problems.push({ path, text: messageOf(error) });
      return text;
    }
  };
  const resolved = resolve(data, []);
  return {
    data: resolved,
    problems,
    variables,
    writtenAt: (path) => written.get(JSON.stringify(path)) ?? null,
  };
}

/** @param variables gets the names that the text refers to */
function fillIn(text: string, env: ReferenceSources['env'], variables: Set<string>): string {
  return text.replace(REFERENCE, (whole, escape: string, inside: string, end: string) => {
    if (escape !== '') return whole.slice(1);
    const [, name, fallback] = (end === '' ? null : NAMED.exec(inside)) ?? [];
    if (name === undefined) {
      throw new Error('expected ${NAME} or ${NAME:-default} (write $${ for a plain ${)');
    }
    variables.add(name);
    const value = Object.hasOwn(env, name) ? env[name] : undefined;
    // As in a shell, the default also replaces an empty value.
    if (fallback !== undefined && (value === undefined || value === '')) return fallback;
    if (value !== undefined) return value;
    throw new Error(
      `expected the environment variable ${name}, which is not set (or write \${${name}:-default})`,
    );
  });
}
