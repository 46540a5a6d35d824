/** What a client sees of a server: who it is, what it lists, what its tools return, and what it asks. */
import {
  Client,
  SSEClientTransport,
  StreamableHTTPClientTransport,
  type ElicitRequest,
  type Transport,
} from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import canonicalize from 'canonicalize';
import { pathToFileURL } from 'node:url';
import type { Call, PublishedServer } from './server.ts';

const CALL_MS = 60_000;

export type Outcome =
  | { readonly kind: 'result'; readonly text: string }
  | { readonly kind: 'tool error'; readonly text: string }
  | { readonly kind: 'error'; readonly text: string };

export interface Observation {
  readonly server: string;
  /** Names of what is listed, and the definitions in full, as JSON. */
  readonly lists: Readonly<Record<ListName, readonly string[]>>;
  readonly calls: readonly (Outcome & { readonly tool: string; readonly ms: number })[];
  readonly questions: readonly string[];
}

export const LISTS = ['tools', 'prompts', 'resources', 'resourceTemplates'] as const;
export type ListName = (typeof LISTS)[number];

export type Connection =
  | { readonly era: 'legacy'; readonly transport: Transport }
  | { readonly era: 'modern'; readonly url: URL };

export function httpTransport(kind: 'streamable-http' | 'http-sse', url: URL): Transport {
  return kind === 'http-sse' ? new SSEClientTransport(url) : new StreamableHTTPClientTransport(url);
}

export function stdioTransport(
  [command, ...args]: readonly [string, ...string[]],
  env: Record<string, string>,
  cwd: string,
): Transport {
  return new StdioClientTransport({ command, args, env, cwd, stderr: 'ignore' });
}

/**
 * @param dir the root that the client offers
 * @throws what the connection failed of; what a list or a call fails of is in the observation
 */
export async function observe(
  connection: Connection,
  { calls, fill = {} }: PublishedServer,
  dir: string,
): Promise<Observation> {
  const questions: string[] = [];
  const client = new Client(
    { name: 'sweep', version: '1.0.0' },
    {
      ...(connection.era === 'modern'
        ? { versionNegotiation: { mode: { pin: '2026-07-28' as const } } }
        : {}),
      capabilities: { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} },
    },
  );
  client.setRequestHandler('elicitation/create', ({ params }) => {
    questions.push(`elicitation: ${params.message}`);
    return { action: 'accept', content: filled(params, fill) };
  });
  client.setRequestHandler('sampling/createMessage', ({ params }) => {
    questions.push(`sampling: ${JSON.stringify(params.messages)}`);
    const content = { type: 'text' as const, text: 'A sampled answer.' };
    return { model: 'sweep', role: 'assistant', content };
  });
  client.setRequestHandler('roots/list', () => {
    questions.push('roots');
    return { roots: [{ uri: pathToFileURL(dir).href, name: 'sweep' }] };
  });
  try {
    await client.connect(
      connection.era === 'modern'
        ? new StreamableHTTPClientTransport(connection.url)
        : connection.transport,
      { timeout: CALL_MS },
    );
    const made = [];
    const listed = await lists(client);
    for (const call of calls) {
      const begun = performance.now();
      const outcome = await outcomeOf(client, call);
      made.push({ tool: call.tool, ...outcome, ms: performance.now() - begun });
    }
    const { name = '?', version = '?' } = client.getServerVersion() ?? {};
    return {
      server: `${name} ${version}`,
      lists: listed,
      calls: made,
      questions,
    };
  } finally {
    await client.close();
  }
}

async function lists(client: Client): Promise<Observation['lists']> {
  const has = client.getServerCapabilities() ?? {};
  const options = { timeout: CALL_MS };
  // Members in an order of their own, and without those of legacy tasks, which 2026-07-28 does not have.
  const json = (items: readonly object[]) =>
    items.map((item) => canonicalize({ ...item, execution: undefined }) ?? '');
  return {
    tools: has.tools ? json((await client.listTools({}, options)).tools) : [],
    prompts: has.prompts ? json((await client.listPrompts({}, options)).prompts) : [],
    resources: has.resources ? json((await client.listResources({}, options)).resources) : [],
    resourceTemplates: has.resources
      ? await client.listResourceTemplates({}, options).then(
          (listed) => json(listed.resourceTemplates),
          // Some servers have resources and no method that lists templates.
          () => [],
        )
      : [],
  };
}

async function outcomeOf(client: Client, call: Call): Promise<Outcome> {
  try {
    const result = await client.callTool(
      { name: call.tool, arguments: call.arguments ?? {} },
      { timeout: CALL_MS },
    );
    const { content, structuredContent, isError } = result;
    const text = JSON.stringify({ content, structuredContent });
    return { kind: isError === true ? 'tool error' : 'result', text };
  } catch (error) {
    return { kind: 'error', text: error instanceof Error ? error.message : String(error) };
  }
}

type Form = Readonly<Record<string, string | number | boolean | string[]>>;

/** Fills the fields of a form: with what is given for them, else with the first value that fits. */
function filled(params: ElicitRequest['params'], fill: Readonly<Record<string, unknown>>): Form {
  if (!('requestedSchema' in params)) return {};
  const { properties, required = [] } = params.requestedSchema;
  const content: Record<string, string | number | boolean | string[]> = {};
  for (const [name, field] of Object.entries(properties)) {
    const given = fill[name];
    if (given !== undefined) content[name] = given as string;
    else if (required.includes(name)) content[name] = firstValue(field);
  }
  return content;
}

function firstValue(field: object): string | number | boolean | string[] {
  const {
    type,
    enum: values,
    oneOf,
  } = field as {
    readonly type?: string;
    readonly enum?: readonly string[];
    readonly oneOf?: readonly { readonly const: string }[];
  };
  const choice = values?.[0] ?? oneOf?.[0]?.const;
  if (choice !== undefined) return choice;
  if (type === 'boolean') return true;
  if (type === 'number' || type === 'integer') return 1;
  return type === 'array' ? [] : 'sweep';
}
