/** The configuration of a gateway of the benchmark, in the words of the version that reads it. */
import { existsSync, readFileSync } from 'node:fs';

/** A value, and the key under which it is configured. */
export interface Setting {
  /** Names of a path such as `['routes', '0', 'path']`, joined by dots; newer versions first. */
  readonly keys: readonly [string, ...string[]];
  readonly value: unknown;
}

/** As much of a JSON Schema as tells which keys there are. */
export interface SchemaNode {
  readonly properties?: Readonly<Record<string, SchemaNode>>;
  readonly items?: SchemaNode;
  readonly anyOf?: readonly SchemaNode[];
  readonly oneOf?: readonly SchemaNode[];
  readonly allOf?: readonly SchemaNode[];
}

/** Reads the schema that lies in every checkout; `null` if it is missing, and every key passes then. */
export function schemaOf(checkout: URL): SchemaNode | null {
  const file = new URL('config/schema.json', checkout);
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as SchemaNode) : null;
}

/**
 * Writes each setting under the first of its keys that the version has.
 * @returns the configuration, and the keys of the settings that the version does not have
 */
export function configurationFor(
  schema: SchemaNode | null,
  settings: readonly Setting[],
): { readonly config: object; readonly leftOut: string[] } {
  const config = {};
  const leftOut: string[] = [];
  for (const { keys, value } of settings) {
    const key = keys.find((one) => schema === null || knows(schema, one.split('.')));
    if (key === undefined) leftOut.push(keys[0]);
    else write(config, key.split('.'), value);
  }
  return { config, leftOut };
}

function knows(node: SchemaNode, [name, ...rest]: readonly string[]): boolean {
  if (name === undefined) return true;
  const next = /^\d+$/.test(name) ? node.items : node.properties?.[name];
  if (next !== undefined && knows(next, rest)) return true;
  const choices = [...(node.anyOf ?? []), ...(node.oneOf ?? []), ...(node.allOf ?? [])];
  return choices.some((choice) => knows(choice, [name, ...rest]));
}

function write(target: object, [name = '', ...rest]: readonly string[], value: unknown): void {
  const members = target as Record<string, unknown>;
  if (rest.length === 0) {
    members[name] = value;
    return;
  }
  members[name] ??= /^\d+$/.test(rest[0] ?? '') ? [] : {};
  write(members[name] as object, rest, value);
}
