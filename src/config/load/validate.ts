/** Validates data against the schema, with one line for each problem. */
import type { z } from 'zod';
import { type Config, fileSchema } from '../schema.ts';
import { crossCheck } from './cross-checks.ts';
import { type FieldPath, isSecretField, type Problem, nearest } from './problem.ts';
import { resolvedSchema, type SchemaNode } from '../schema/json-schema.ts';

export type Validation =
  | { readonly config: Config; readonly problems: null }
  | { readonly config: null; readonly problems: readonly Problem[] };

const MAX_SHOWN_CHARACTERS = 80;
/** What takes the place of keys that earlier versions had. */
const REPLACED: ReadonlyMap<string, string> = new Map([
  ['sessions.maxIdle', 'sessions.max or sessions.maxPerPrincipal'],
]);

/**
 * Validates parsed data.
 * @param data with references resolved
 * @param shownInstead what messages show in place of a value; `null` shows the value
 * @returns the configuration, or all problems
 */
export function validate(
  data: unknown,
  shownInstead: (path: FieldPath) => string | null = () => null,
): Validation {
  const parsed = fileSchema.safeParse(data);
  if (!parsed.success) {
    const problems = parsed.error.issues.flatMap((issue) => describe(issue, data, shownInstead));
    return { config: null, problems };
  }
  const config = parsed.data;
  const problems = crossCheck(config);
  return problems.length === 0 ? { config, problems: null } : { config: null, problems };
}

function describe(
  issue: z.core.$ZodIssue,
  data: unknown,
  shownInstead: (path: FieldPath) => string | null,
): Problem[] {
  const path = issue.path.map((step) => (typeof step === 'number' ? step : String(step)));
  if (issue.code === 'unrecognized_keys') {
    const known = keysAt(path, data);
    return issue.keys.map((key) => unknownKey(path, key, known));
  }
  const value = lookUp(data, path);
  const got = isSecretField(path)
    ? value === undefined || value === null
      ? 'nothing'
      : 'an invalid value (not shown)'
    : (shownInstead(path) ?? show(value));
  return [{ path, text: `expected ${issue.message}, got ${got}` }];
}

function unknownKey(path: FieldPath, key: string, known: readonly string[]): Problem {
  const replacement = REPLACED.get([...path.slice(-1), key].join('.'));
  if (replacement !== undefined) {
    return { path: [...path, key], atKey: true, text: `removed key; use ${replacement} instead` };
  }
  const meant = nearest(key, known);
  const hint =
    meant !== null ? `did you mean "${meant}"?` : `known here are ${known.join(', ') || 'none'}`;
  // A secret can be in the place of a key. Only a key that resembles a known one is shown.
  if (isSecretField(path) && meant === null) {
    return { path, text: `unknown key (not shown); ${hint}` };
  }
  return { path: [...path, key], atKey: true, text: `unknown key; ${hint}` };
}

/** Lists the keys that the schema allows at a path. */
function keysAt(path: FieldPath, data: unknown): readonly string[] {
  let node: SchemaNode | undefined = resolvedSchema();
  let value = data;
  for (const step of path) {
    node = child(variantOf(node, value), step);
    value = lookUp(value, [step]);
  }
  return Object.keys(variantOf(node, value)?.properties ?? {});
}

/** Finds the schema of the `source` that a map names. */
function variantOf(node: SchemaNode | undefined, value: unknown): SchemaNode | undefined {
  const source = lookUp(value, ['source']);
  const variant = node?.oneOf?.find((each) => each.properties?.['source']?.const === source);
  return variant ?? node;
}

function child(node: SchemaNode | undefined, step: string | number): SchemaNode | undefined {
  if (typeof step === 'number') return node?.items;
  const named = node?.properties?.[step];
  if (named !== undefined) return named;
  return typeof node?.additionalProperties === 'object' ? node.additionalProperties : undefined;
}

/** Reads the value at a path, own members only. @returns `undefined` if it is missing */
function lookUp(data: unknown, path: FieldPath): unknown {
  let value = data;
  for (const step of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step))
      return undefined;
    value = (value as Record<string | number, unknown>)[step];
  }
  return value;
}

/** Formats a value for a message: one short line, without the credentials of a URL. */
function show(value: unknown): string {
  if (value === undefined || value === null) return 'nothing';
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list';
  if (typeof value === 'object') return 'a map';
  if (typeof value !== 'string') return String(value);
  const harmless = value.replace(/^.*@/s, '***@').replace(/\?.*$/s, '?***');
  const short =
    harmless.length > MAX_SHOWN_CHARACTERS
      ? `${harmless.slice(0, MAX_SHOWN_CHARACTERS)}...`
      : harmless;
  // Terminals interpret these characters, and JSON does not escape them.
  return JSON.stringify(short).replace(/[\u007f-\u009f\u2028\u2029]/g, '?');
}
