/** The JSON Schema of the configuration file, for editors. */
import { z } from 'zod';
import { type FieldPath, isSecretField } from '../load/problem.ts';
import { fileSchema } from '../schema.ts';

/** The part of a JSON Schema node that is used here. */
export interface SchemaNode {
  readonly title?: string;
  readonly description?: string;
  readonly default?: unknown;
  readonly type?: string;
  readonly pattern?: string;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly properties?: Readonly<Record<string, SchemaNode>>;
  readonly required?: readonly string[];
  readonly items?: SchemaNode;
  readonly additionalProperties?: SchemaNode | boolean;
  readonly anyOf?: readonly SchemaNode[];
  readonly oneOf?: readonly SchemaNode[];
}

/** Returns the schema of the file with its references resolved, which is the one that is validated. */
export function resolvedSchema(): SchemaNode {
  resolved ??= z.toJSONSchema(fileSchema, { io: 'input' }) as SchemaNode;
  return resolved;
}

let resolved: SchemaNode | undefined;

/** Returns the schema of the file as written: every scalar can be a `${NAME}` as well. */
export function writtenSchema(): SchemaNode {
  return {
    ...allowReferences(resolvedSchema()),
    title: 'mrtr-gateway configuration',
  };
}

/** Writes `config/schema.json`. */
export function writtenSchemaText(): string {
  return `${JSON.stringify(writtenSchema(), null, 2)}\n`;
}

const VARIABLE: SchemaNode = { type: 'string', pattern: '\\$\\{' };
const VARIABLE_OR_FILE: SchemaNode = { type: 'string', pattern: '\\$\\{|^file:' };

function allowReferences(node: SchemaNode, path: FieldPath = []): SchemaNode {
  const { properties, items, additionalProperties, oneOf } = node;
  if (oneOf !== undefined)
    return { ...node, oneOf: oneOf.map((each) => allowReferences(each, path)) };
  const further = typeof additionalProperties === 'object' ? additionalProperties : undefined;
  if (properties ?? items ?? further) {
    return {
      ...node,
      ...(properties && { properties: allowInMembers(properties, path) }),
      ...(items && { items: allowReferences(items, [...path, 0]) }),
      ...(further && { additionalProperties: allowReferences(further, [...path, '*']) }),
    };
  }
  if (node.const !== undefined) return node;
  const { title, description, default: fallback, ...rest } = node;
  return {
    ...(title === undefined ? {} : { title }),
    ...(description === undefined ? {} : { description }),
    ...(fallback === undefined ? {} : { default: fallback }),
    anyOf: [...(rest.anyOf ?? [rest]), isSecretField(path) ? VARIABLE_OR_FILE : VARIABLE],
  };
}

function allowInMembers(
  members: Readonly<Record<string, SchemaNode>>,
  path: FieldPath,
): Record<string, SchemaNode> {
  return Object.fromEntries(
    Object.entries(members).map(([name, node]) => [name, allowReferences(node, [...path, name])]),
  );
}
