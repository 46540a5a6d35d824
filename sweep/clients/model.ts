/**
 * A model that plays a script, for clients that need one: it calls `echo`, then `ask`, each once, then says that it is done. It
 * speaks what the model providers' own servers speak (Anthropic Messages, OpenAI Chat Completions and Responses, Gemini).
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export const TEXT = 'grüße, 世界';

/** What is in the script, in its order. */
const CALLS = [
  { tool: 'echo', arguments: { text: TEXT } },
  { tool: 'ask', arguments: {} },
] as const;

/** What a request to the model has of interest, in any dialect. */
interface Conversation {
  /** Names of the tools that the client offers. */
  readonly offered: readonly string[];
  /** Names of the tools that the model has called so far. */
  readonly called: readonly string[];
}

export type Turn =
  | { readonly say: string }
  | { readonly call: string; readonly arguments: Readonly<Record<string, unknown>> };

/** @returns what the script says next. Clients put the server's name in front of a tool's. */
export function nextTurn({ offered, called }: Conversation): Turn {
  for (const { tool, arguments: given } of CALLS) {
    const isIt = (name: string) => new RegExp(`(^|[^a-z])${tool}$`, 'i').test(name);
    const name = offered.find(isIt);
    if (name !== undefined && !called.some(isIt)) return { call: name, arguments: given };
  }
  return { say: 'Done.' };
}

export class Model implements AsyncDisposable {
  readonly origin: string;
  readonly #server;

  private constructor(server: ReturnType<typeof createServer>) {
    this.#server = server;
    this.origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  static async start(): Promise<Model> {
    const server = createServer((request, response) => {
      answer(request, response).catch(() => response.destroy());
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new Model(server);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((done) => this.#server.close(done));
  }
}

/** A dialect: what it reads, and the events of its stream. Without a stream the answer is `whole`. */
interface Dialect {
  readonly path: RegExp;
  read(body: any): Conversation; // eslint-disable-line @typescript-eslint/no-explicit-any
  whole(turn: Turn): unknown;
  events(turn: Turn): readonly (readonly [event: string | null, data: unknown])[];
}

const USAGE = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };

const anthropic: Dialect = {
  path: /\/messages$/,
  read: ({ tools = [], messages = [] }) => ({
    offered: tools.map(({ name }: { name: string }) => name),
    called: messages
      .flatMap(({ content }: { content: unknown }) => (Array.isArray(content) ? content : []))
      .filter(({ type }: { type: string }) => type === 'tool_use')
      .map(({ name }: { name: string }) => name),
  }),
  whole: (turn) => ({
    ...{ id: 'msg_1', type: 'message', role: 'assistant', model: 'scripted' },
    content: [
      'say' in turn
        ? { type: 'text', text: turn.say }
        : { type: 'tool_use', id: idOf(turn), name: turn.call, input: turn.arguments },
    ],
    stop_reason: 'say' in turn ? 'end_turn' : 'tool_use',
    stop_sequence: null,
    usage: { input_tokens: 1, output_tokens: 1 },
  }),
  events(turn) {
    const whole = this.whole(turn) as { stop_reason: string; content: object[]; usage: object };
    const begun = 'say' in turn ? { type: 'text', text: '' } : { ...whole.content[0], input: {} };
    const delta =
      'say' in turn
        ? { type: 'text_delta', text: turn.say }
        : { type: 'input_json_delta', partial_json: JSON.stringify(turn.arguments) };
    const events = [
      { type: 'message_start', message: { ...whole, content: [], stop_reason: null } },
      { type: 'content_block_start', index: 0, content_block: begun },
      { type: 'content_block_delta', index: 0, delta },
      { type: 'content_block_stop', index: 0 },
      {
        type: 'message_delta',
        delta: { stop_reason: whole.stop_reason, stop_sequence: null },
        usage: whole.usage,
      },
      { type: 'message_stop' },
    ];
    return events.map((event) => [event.type, event] as const);
  },
};

const chatCompletions: Dialect = {
  path: /\/chat\/completions$/,
  read: ({ tools = [], messages = [] }) => ({
    offered: tools.map((tool: { function?: { name: string } }) => tool.function?.name ?? ''),
    called: messages
      .flatMap((message: { tool_calls?: unknown[] }) => message.tool_calls ?? [])
      .map((call: { function?: { name: string } }) => call.function?.name ?? ''),
  }),
  whole: (turn) => ({
    ...{ id: 'chat-1', object: 'chat.completion', created: 1, model: 'scripted', usage: USAGE },
    choices: [{ index: 0, message: chatMessage(turn), finish_reason: finish(turn) }],
  }),
  events(turn) {
    const chunk = { id: 'chat-1', object: 'chat.completion.chunk', created: 1, model: 'scripted' };
    return [
      [null, { ...chunk, choices: [{ index: 0, delta: chatMessage(turn), finish_reason: null }] }],
      [null, { ...chunk, choices: [{ index: 0, delta: {}, finish_reason: finish(turn) }] }],
      [null, { ...chunk, choices: [], usage: USAGE }],
      [null, '[DONE]'],
    ];
  },
};

const responses: Dialect = {
  path: /\/responses$/,
  // Tools of a server are in a namespace of its name.
  read: ({ tools = [], input = [] }) => ({
    offered: tools.flatMap((tool: { name?: string; tools?: { name: string }[] }) =>
      tool.tools === undefined
        ? [tool.name ?? '']
        : tool.tools.map(({ name }) => `${tool.name ?? ''}|${name}`),
    ),
    called: (Array.isArray(input) ? input : [])
      .filter(({ type }: { type?: string }) => type === 'function_call')
      .map(({ name }: { name: string }) => name),
  }),
  whole: (turn) => ({
    ...{ id: 'resp_1', object: 'response', created_at: 1, model: 'scripted', status: 'completed' },
    output: [responseItem(turn)],
    usage: {
      ...{ input_tokens: 1, output_tokens: 1, total_tokens: 2 },
      input_tokens_details: { cached_tokens: 0 },
      output_tokens_details: { reasoning_tokens: 0 },
    },
  }),
  events(turn) {
    const whole = this.whole(turn) as object;
    const item = responseItem(turn);
    const events = [
      { type: 'response.created', response: { ...whole, status: 'in_progress', output: [] } },
      { type: 'response.output_item.added', output_index: 0, item },
      { type: 'response.output_item.done', output_index: 0, item },
      { type: 'response.completed', response: whole },
    ];
    return events.map((event, sequence_number) => [event.type, { ...event, sequence_number }]);
  },
};

const gemini: Dialect = {
  path: /:(stream)?generateContent$/i,
  read: ({ tools = [], contents = [] }) => ({
    offered: tools
      .flatMap((tool: { functionDeclarations?: unknown[] }) => tool.functionDeclarations ?? [])
      .map(({ name }: { name: string }) => name),
    called: contents
      .flatMap(({ parts = [] }: { parts?: unknown[] }) => parts)
      .map((part: { functionCall?: { name: string } }) => part.functionCall?.name ?? ''),
  }),
  whole: (turn) => ({
    candidates: [
      {
        index: 0,
        content: {
          role: 'model',
          parts: [
            'say' in turn
              ? { text: turn.say }
              : { functionCall: { name: turn.call, args: turn.arguments } },
          ],
        },
        finishReason: 'STOP',
      },
    ],
    usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 },
    modelVersion: 'scripted',
  }),
  events(turn) {
    return [[null, this.whole(turn)]];
  },
};

const DIALECTS = [anthropic, chatCompletions, responses, gemini];

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { pathname } = new URL(request.url ?? '/', 'http://model');
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const dialect = DIALECTS.find(({ path }) => path.test(pathname));
  if (request.method !== 'POST' || dialect === undefined) {
    // Lists of models, counts of tokens, and what else a client looks at before it asks.
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(
      JSON.stringify({
        data: [{ id: 'scripted', object: 'model' }],
        input_tokens: 1,
        totalTokens: 1,
      }),
    );
    return;
  }
  const body = JSON.parse(Buffer.concat(chunks).toString());
  const turn = nextTurn(dialect.read(body));
  if (body.stream === true || pathname.includes(':stream')) {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const [event, data] of dialect.events(turn)) {
      if (event !== null) response.write(`event: ${event}\n`);
      response.write(`data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`);
    }
    response.end();
    return;
  }
  response.writeHead(200, { 'content-type': 'application/json' });
  response.end(JSON.stringify(dialect.whole(turn)));
}

function chatMessage(turn: Turn): object {
  if ('say' in turn) return { role: 'assistant', content: turn.say };
  const call = { name: turn.call, arguments: JSON.stringify(turn.arguments) };
  return {
    role: 'assistant',
    content: null,
    tool_calls: [{ index: 0, id: idOf(turn), type: 'function', function: call }],
  };
}

function finish(turn: Turn): string {
  return 'say' in turn ? 'stop' : 'tool_calls';
}

function responseItem(turn: Turn): object {
  if ('say' in turn)
    return {
      ...{ id: 'msg_1', type: 'message', role: 'assistant', status: 'completed' },
      content: [{ type: 'output_text', text: turn.say, annotations: [] }],
    };
  const [last = '', namespace] = turn.call.split('|').reverse();
  return {
    ...{ id: `fc_${last}`, type: 'function_call', status: 'completed', call_id: idOf(turn) },
    ...(namespace !== undefined && { namespace }),
    name: last,
    arguments: JSON.stringify(turn.arguments),
  };
}

/** Each tool is called once. */
function idOf({ call }: { readonly call: string }): string {
  return `call_${call.replaceAll(/\W/g, '_')}`;
}
