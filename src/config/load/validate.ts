/** Validates data against the schema, with one line for each problem. */
import type { z } from 'zod';
import { type Config, fileSchema } from '../schema.ts';
import { crossCheck } from './cross-checks.ts';
import {
  type FieldPath,
  formatPath,
  isSecretField,
  lookUp,
  nearest,
  type Problem,
  sizeMeant,
  urlMeant,
} from './problem.ts';
import { resolvedSchema, type SchemaNode } from '../schema/json-schema.ts';

export type Validation =
  | { readonly config: Config; readonly problems: null }
  | { readonly config: null; readonly problems: readonly Problem[] };

const MAX_SHOWN_CHARACTERS = 80;
/** To compile the schema first, as zod does by default, takes longer than to read one configuration with it. */
const ONCE = { jitless: true } as const;

/**
 * Validates parsed data.
 * @param data with references resolved
 * @param shownInstead what messages show in place of a value; `null` shows the value
 * @param unresolved fields whose references cannot be resolved
 * @returns the configuration, or all problems but those of unresolved fields
 */
export function validate(
  data: unknown,
  shownInstead: (path: FieldPath) => string | null = () => null,
  unresolved: readonly FieldPath[] = [],
): Validation {
  const parsed = fileSchema.safeParse(data, ONCE);
  const issues = parsed.success ? [] : parsed.error.issues;
  const problems = issues
    .flatMap((issue) => describe(issue, data, shownInstead))
    .filter(({ path }) => !unresolved.some((other) => isRelated(path, other)));
  const wrong = [...unresolved, ...problems.flatMap(({ path, atKey }) => (atKey ? [] : [path]))];
  const config = parsed.success ? parsed.data : repaired(data, issues);
  // What follows from a value that is wrong is not a problem of its own.
  const further = config === null ? [] : crossCheck(config);
  problems.push(
    ...further.filter(({ path, reads = [] }) =>
      [path, ...reads].every((field) => !wrong.some((other) => isRelated(field, other))),
    ),
  );
  if (!parsed.success || problems.length > 0) return { config: null, problems };
  return { config: parsed.data, problems: null };
}

function pathOf({ path }: z.core.$ZodIssue): (string | number)[] {
  return path.map((step) => (typeof step === 'number' ? step : String(step)));
}

/** Tells whether one field is the other, or holds it. */
function isRelated(one: FieldPath, other: FieldPath): boolean {
  const [short, long] = one.length < other.length ? [one, other] : [other, one];
  return short.every((step, index) => step === long[index]);
}

function describe(
  issue: z.core.$ZodIssue,
  data: unknown,
  shownInstead: (path: FieldPath) => string | null,
): Problem[] {
  const path = pathOf(issue);
  if (issue.code === 'unrecognized_keys') {
    const schemas = schemasTo(path, data);
    return issue.keys.map((key) => unknownKey(path, key, schemas));
  }
  const value = lookUp(data, path);
  if (isSecretField(path)) {
    const got = value === undefined || value === null ? 'nothing' : 'an invalid value (not shown)';
    return [{ path, text: `expected ${issue.message}, got ${got}` }];
  }
  const instead = shownInstead(path);
  const isUrl = instead === null && typeof value === 'string' && issue.message.includes('URL');
  const isSize = typeof value === 'string' && /\dMiB|\dKiB/.test(issue.message);
  const meant = isUrl ? urlMeant(value) : isSize ? sizeMeant(value) : null;
  const hint = meant === null ? '' : `; did you mean ${show(meant)}?`;
  return [{ path, text: `expected ${issue.message}, got ${instead ?? show(value)}${hint}` }];
}

function unknownKey(
  path: FieldPath,
  key: string,
  schemas: readonly (SchemaNode | undefined)[],
): Problem {
  const { text, isKnown } = hintFor(key, path, schemas);
  // A secret can be in the place of a key. Only a key that resembles a known one is shown.
  if (isSecretField(path) && !isKnown) return { path, text: `unknown key (not shown); ${text}` };
  return { path: [...path, key], atKey: true, text: `unknown key; ${text}` };
}

const ROUTE: FieldPath = ['routes', 0];
const CLIENT_FILE =
  'this block is for clients. Write routes: [{upstream: {url: "http://HOST:PORT/mcp"}}], or command and args of the server in place of its url';
/** Keys of other programs, which people paste. */
const PASTED: ReadonlySet<string> = new Set(['mcpServers', 'servers']);

/**
 * Explains an unknown key: what an operator most likely meant with it at its place.
 * @param path of the map that has it
 * @param schemas of the maps around it, from the whole file on, with its own as the last
 * @returns the hint, and whether it shows a key that resembles this one
 */
function hintFor(
  key: string,
  path: FieldPath,
  schemas: readonly (SchemaNode | undefined)[],
): { readonly text: string; readonly isKnown: boolean } {
  if (/^\/[/*]/.test(key)) return { text: 'comments begin with #', isKnown: false };
  const known = Object.keys(schemas.at(-1)?.properties ?? {});
  const home = homeOf(key, path, schemas);
  const meant = nearest(key, known);
  if (meant !== null) return { text: `did you mean "${meant}"?`, isKnown: true };
  if (home !== null) {
    return { text: `it belongs to ${home}: check the indentation`, isKnown: true };
  }
  if (PASTED.has(key)) return { text: CLIENT_FILE, isKnown: true };
  return {
    text: known.length === 0 ? 'no key is expected here' : `expected one of ${known.join(', ')}`,
    isKnown: false,
  };
}

/** Finds the map around the key, or the one in it, that knows the key. */
function homeOf(
  key: string,
  path: FieldPath,
  schemas: readonly (SchemaNode | undefined)[],
): string | null {
  const within = path.length === 0 ? ROUTE : path;
  const schema =
    path.length === 0 ? resolvedSchema().properties?.['routes']?.items : schemas.at(-1);
  if (path.length === 0 && knows(schema, key)) return formatPath(ROUTE);
  const member = Object.entries(schema?.properties ?? {}).find(([, node]) => knows(node, key));
  if (member !== undefined) return formatPath([...within, member[0]]);
  const around = schemas.slice(0, -1).findLastIndex((node) => knows(node, key));
  if (around < 0) return null;
  return around === 0 ? 'the top level' : formatPath(path.slice(0, around));
}

function knows(node: SchemaNode | undefined, key: string): boolean {
  return Object.hasOwn(node?.properties ?? {}, key);
}

/** Lists the schemas of the maps along a path, from the whole file on. */
function schemasTo(path: FieldPath, data: unknown): (SchemaNode | undefined)[] {
  let node: SchemaNode | undefined = resolvedSchema();
  let value = data;
  const schemas = [variantOf(node, value)];
  for (const step of path) {
    node = child(variantOf(node, value), step);
    value = lookUp(value, [step]);
    schemas.push(variantOf(node, value));
  }
  return schemas;
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

/** Each repair leaves out the maps around what was missing in the one before. */
const MAX_REPAIRS = 8;
/** Takes the place of an upstream that was left out. */
const UPSTREAM = { url: 'http://upstream.invalid/' };

/**
 * Leaves out what is wrong, so that the rules between several fields can be checked for the rest.
 * @returns the configuration of the rest; `null` if there is none
 */
function repaired(data: unknown, issues: readonly z.core.$ZodIssue[]): Config | null {
  const copy: unknown = structuredClone(data);
  let left = issues;
  for (let round = 0; round < MAX_REPAIRS; round += 1) {
    for (const issue of left) leaveOut(copy, issue);
    const parsed = fileSchema.safeParse(copy, ONCE);
    if (parsed.success) return parsed.data;
    left = parsed.error.issues;
  }
  return null;
}

function leaveOut(data: unknown, issue: z.core.$ZodIssue): void {
  const path = pathOf(issue);
  if (issue.code !== 'unrecognized_keys') return remove(data, path);
  // Another issue may have removed the map.
  const map = lookUp(data, path) as Record<string, unknown> | undefined;
  for (const key of issue.keys) delete map?.[key];
}

/** Removes a value, or the map or list around it if it is missing or an item. */
function remove(data: unknown, path: FieldPath): void {
  const name = path.at(-1);
  const around = lookUp(data, path.slice(0, -1));
  if (name === undefined || typeof around !== 'object' || around === null) return;
  const map = around as Record<string | number, unknown>;
  const [first, index] = path;
  if (first === 'routes' && path.length === 1) map[name] = [{ upstream: UPSTREAM }];
  else if (first === 'routes' && path.length === 2) {
    map[name] = { path: `/invalid-${index}`, upstream: UPSTREAM };
  } else if (first === 'routes' && path.length === 3 && name === 'upstream') map[name] = UPSTREAM;
  else if (Array.isArray(around) || !Object.hasOwn(map, name)) remove(data, path.slice(0, -1));
  else delete map[name];
}
