/** The page of documentation that lists every key of the configuration file, made from its schema. */
import { FLAGS, SEAL_KEY_VARIABLE } from '../../../src/cli/flags.ts';
import { VARIABLES } from '../../../src/cli/variables.ts';
import { resolvedSchema, type SchemaNode } from '../../../src/config/schema/json-schema.ts';

interface Row {
  readonly key: string;
  readonly type: string;
  readonly fallback: string;
  readonly meaning: string;
}

const INTRODUCTION = `# Configuration

<!-- Generated from src/config/schema and src/cli/flags.ts by test/unit/config; "npx vitest run test/unit/config --update" writes it. -->

\`mrtr-gateway --config FILE\` reads one YAML or JSON file. \`mrtr-gateway check FILE\` names every
problem by line and column, and warns of what is valid but risky. It exits with 0 if the file is valid, 1 if it is not, and 64 for
wrong arguments. \`config/example.yaml\` works unchanged; \`config/production.yaml\` shows keys, two routes and limits. For
completion in an editor, begin the file with:

\`\`\`yaml
# yaml-language-server: $schema=./schema.json
\`\`\`

- **Durations** are written \`500ms\`, \`30s\`, \`10m\`, \`1h\`, \`7d\`; a bare number means milliseconds.
- **Sizes** are written \`512KiB\`, \`4MiB\`, \`1GiB\`; a bare number means bytes.
- **Addresses** are written \`127.0.0.1:8080\`, \`localhost:8080\`, \`"[::1]:8080"\` (in quotes), or \`:8080\`
  for all IPv4 interfaces.
- **\`\${NAME}\`** in a text is replaced by an environment variable, **\`\${NAME:-default}\`** by the default
  if the variable is not set or empty; \`$\${\` is a plain \`\${\`. This happens after parsing, so a variable
  can never add keys.
- **\`file:/path\`** as the value of a sealing key, of an upstream header, or of a key whose description says so, is
  replaced by the content of that file, without the newline at its end. A relative path starts at the folder of the configuration file.
- An unknown key is an error. Problems never show the values of sealing keys and headers.
`;

/** Keys that mean for prompts and resources what they mean for tools. */
const LIKE_TOOLS = /^routes\[\]\.(?:prompts|resources)\./;

/** What a variable does that is no flag. */
const WITHOUT_FLAG: Readonly<Record<string, string>> = {
  [SEAL_KEY_VARIABLE]:
    'sealing keys as `KID:KEY`, separated by white space or commas, the newest first',
  MRTR_GATEWAY_LISTEN_DEFAULT:
    'where clients connect if no flag, no other variable and no file says it; the image sets `:8080`',
};

/** The section on variables. They are those of the program, so that none is missing. */
function variables(): string {
  const lines = VARIABLES.map((name) => {
    const flag = FLAGS.serve.find(({ env }) => env === name);
    const meaning = flag === undefined ? WITHOUT_FLAG[name] : flag.meaning;
    if (meaning === undefined) throw new Error(`${name} is not explained`);
    return `| \`${name}\` | ${flag === undefined ? '-' : `\`--${flag.name}\``} | ${meaning} |`;
  });
  return `## Environment variables

A flag takes precedence over its variable. With a configuration file (\`--config\` or \`MRTR_GATEWAY_CONFIG\`) only the
variables of \`--listen\`, \`--admin\`, \`--workers\`, \`--log-level\` and \`--log-format\` take effect, and override the
file. The file can refer to any variable as \`\${NAME}\`; \`check\` and the log warn of others that are set
(\`gateway.unused_variable\`). An empty variable counts as not set.

| Variable | Flag | Meaning |
| -------- | ---- | ------- |
${lines.join('\n')}

Any other variable that begins with \`MRTR_GATEWAY_\` has no effect. \`check\` and the log warn of it
(\`gateway.unknown_variable\`), unless the file refers to it, \`--env\` passes it on to a server, or Kubernetes sets it for a
Service called \`mrtr-gateway\`.
`;
}

/** The text of `docs/configuration.md`. */
export function configurationReference(): string {
  const sections: string[] = [INTRODUCTION];
  const scalars: Row[] = [];
  for (const [name, node] of Object.entries(resolvedSchema().properties ?? {})) {
    if (hasMembers(node)) {
      sections.push(`## \`${name}\`\n\n${describe(node)}\n\n${table(rows(node, name))}`);
    } else {
      scalars.push(row(name, node, false));
    }
  }
  const [introduction, ...others] = sections;
  return [
    introduction,
    `## Listeners and workers\n\n${table(scalars)}`,
    ...others,
    variables(),
  ].join('\n');
}

function rows(node: SchemaNode, prefix: string): Row[] {
  if (node.items !== undefined) return rows(node.items, `${prefix}[]`);
  const known = new Set<string>();
  return variants(node).flatMap(({ properties, required }) => {
    const source = properties?.['source']?.const;
    return Object.entries(properties ?? {}).flatMap(([name, member]) => {
      if (member.const !== undefined || known.has(name)) return [];
      known.add(name);
      const key = `${prefix}.${name}`;
      const plain = row(key, member, required?.includes(name) ?? false);
      const isOfOne = source !== undefined && !isOfAll(node, name);
      const own = LIKE_TOOLS.test(key) ? 'As for `tools`.' : plain.meaning;
      const meaning = isOfOne ? `With \`${String(source)}\`. ${own}` : own;
      return [{ ...plain, meaning }, ...(hasMembers(member) ? rows(member, key) : [])];
    });
  });
}

/** Tells whether all variants have a member. */
function isOfAll({ oneOf = [] }: SchemaNode, name: string): boolean {
  return oneOf.every(({ properties }) => properties?.[name] !== undefined);
}

/** The choice of a variant is a key of its own: its words are those of all variants. */
function variants(node: SchemaNode): readonly SchemaNode[] {
  if (node.oneOf === undefined) return [node];
  const words = node.oneOf.map((each) => `\`${String(each.properties?.['source']?.const)}\``);
  const source: SchemaNode = {
    title: words.join(', '),
    description: describe(node.oneOf[0]?.properties?.['source'] ?? node),
    default: (node.default as Record<string, unknown> | undefined)?.['source'],
  };
  return [{ properties: { source } }, ...node.oneOf];
}

function hasMembers(node: SchemaNode): boolean {
  return (
    node.properties !== undefined ||
    node.oneOf !== undefined ||
    (node.items !== undefined && hasMembers(node.items))
  );
}

function row(key: string, node: SchemaNode, required: boolean): Row {
  const group = node.properties !== undefined;
  return {
    key: `\`${key}\``,
    type: group ? 'map' : (node.title ?? 'text'),
    fallback: required ? 'required' : showDefault(group ? undefined : node.default),
    meaning: describe(node),
  };
}

function showDefault(value: unknown): string {
  if (value === undefined) return '-';
  if (Array.isArray(value)) return 'empty';
  if (typeof value === 'object') return 'empty';
  return `\`${String(value)}\``;
}

function describe(node: SchemaNode): string {
  return node.description ?? '';
}

function table(rows: readonly Row[]): string {
  const lines = rows.map(({ key, type, fallback, meaning }) => {
    return `| ${[key, type, fallback, meaning].join(' | ')} |`;
  });
  return ['| Key | Type | Default | Meaning |', '| --- | --- | --- | --- |', ...lines, ''].join(
    '\n',
  );
}
