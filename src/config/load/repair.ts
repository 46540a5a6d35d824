/**
 * Finds what is wrong beside the values that are wrong: a configuration in which they are left out is checked for the
 * rules between several fields.
 */
import type { z } from 'zod';
import { type Config, fileSchema } from '../schema.ts';
import { type FieldPath, lookUp } from './problem.ts';

/** Each round leaves out the maps around what was missing in the round before. */
const MAX_ROUNDS = 8;
const UPSTREAM = { url: 'http://upstream.invalid/' };

/** Leaves out what is wrong. @returns the configuration of the rest; `null` if there is none */
export function repaired(data: unknown, issues: readonly z.core.$ZodIssue[]): Config | null {
  const copy: unknown = structuredClone(data);
  let left = issues;
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    for (const issue of left) leaveOut(copy, issue);
    const parsed = fileSchema.safeParse(copy);
    if (parsed.success) return parsed.data;
    left = parsed.error.issues;
  }
  return null;
}

function leaveOut(data: unknown, issue: z.core.$ZodIssue): void {
  const path = issue.path.map((step) => (typeof step === 'number' ? step : String(step)));
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
