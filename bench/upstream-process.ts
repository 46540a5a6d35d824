/**
 * A legacy MCP server (2025-11-25, Streamable HTTP, stateful) that does as little as one can: run as a
 * process of its own, so that what is measured in front of it is not its own work. Its tools are `echo`
 * and `ask`, which elicits. It answers calls as an event stream, as the official servers do.
 */
import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { announcePort } from './announce.ts';

const EVENT_STREAM = { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' };
const JSON_TYPE = { 'content-type': 'application/json' };

interface Message {
  readonly id?: string | number;
  readonly method?: string;
  readonly params?: { readonly name?: string; readonly arguments?: unknown };
  readonly result?: unknown;
}

/** Calls that wait for their answer, by the id of the question. */
const asked = new Map<
  string,
  { readonly callId: Message['id']; readonly stream: ServerResponse }
>();
let questions = 0;

const server = createServer((request, response) => {
  if (request.method === 'GET') {
    response.writeHead(200, EVENT_STREAM).flushHeaders();
  } else if (request.method === 'POST') {
    readBody(request).then(
      (text) => answer(JSON.parse(text) as Message, response),
      () => response.destroy(),
    );
  } else {
    response.writeHead(200).end();
  }
});

function answer({ id, method, params, result }: Message, response: ServerResponse): void {
  switch (method) {
    case 'tools/call':
      response.writeHead(200, EVENT_STREAM);
      if (params?.name === 'ask') return ask(id, response);
      response.end(event({ id, result: text(params?.arguments) }));
      return;
    case 'initialize':
      response.writeHead(200, { ...JSON_TYPE, 'mcp-session-id': randomUUID() });
      response.end(message({ id, result: INITIALIZED }));
      return;
    case 'tools/list':
      response.writeHead(200, JSON_TYPE).end(message({ id, result: { tools: TOOLS } }));
      return;
    case 'ping':
      response.writeHead(200, JSON_TYPE).end(message({ id, result: {} }));
      return;
    case undefined:
      response.writeHead(202).end();
      return resume(String(id), result);
    default:
      if (id === undefined) response.writeHead(202).end();
      else response.writeHead(200, JSON_TYPE).end(message({ id, error: NO_SUCH_METHOD }));
  }
}

function ask(callId: Message['id'], stream: ServerResponse): void {
  questions += 1;
  const id = questions;
  asked.set(String(id), { callId, stream });
  stream.on('close', () => asked.delete(String(id)));
  stream.write(event({ id, method: 'elicitation/create', params: QUESTION }));
}

function resume(questionId: string, result: unknown): void {
  const call = asked.get(questionId);
  call?.stream.end(event({ id: call.callId, result: text(result) }));
}

const INITIALIZED = {
  protocolVersion: '2025-11-25',
  capabilities: { tools: {} },
  serverInfo: { name: 'bench-upstream', version: '1.0.0' },
};
const TOOLS = ['echo', 'ask'].map((name) => ({ name, inputSchema: { type: 'object' } }));
const NO_SUCH_METHOD = { code: -32601, message: 'Method not found' };
const QUESTION = {
  mode: 'form',
  message: 'Which name?',
  requestedSchema: {
    type: 'object',
    properties: { name: { type: 'string' } },
    required: ['name'],
  },
};

const text = (value: unknown) => ({ content: [{ type: 'text', text: JSON.stringify(value) }] });
const message = (members: object) => JSON.stringify({ jsonrpc: '2.0', ...members });
const event = (members: object) => `event: message\ndata: ${message(members)}\n\n`;

async function readBody(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString('utf8');
}

// Nobody is disconnected for being idle between two repetitions.
server.keepAliveTimeout = 0;
server.requestTimeout = 0;
server.listen(0, '127.0.0.1', () => announcePort(server));
