/**
 * A legacy MCP server (2025-11-25, Streamable HTTP, stateful) that does as little as one can: run as a
 * process of its own, so that what is measured in front of it is not its own work. Its tools are `echo`
 * and `ask`, which elicits; with the argument `timed` its question says when it was sent, and `report`, which reports its progress. It answers calls as an event stream, as the official servers do. At `/mcp`
 * it forgets what it has sent; at `/sse` it speaks HTTP+SSE (2024-11-05), `echo` only; at `/kept` it numbers and keeps the events of `ask`, so that its streams
 * can be left and read on by `Last-Event-ID`.
 */
import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { timedMessage } from '../clients/timed-question.ts';
import { announcePort } from './announce.ts';

const EVENT_STREAM = { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' };
const JSON_TYPE = { 'content-type': 'application/json' };

interface Message {
  readonly id?: string | number;
  readonly method?: string;
  readonly params?: {
    readonly name?: string;
    readonly arguments?: Arguments;
    readonly _meta?: { readonly progressToken?: string | number };
  };
  readonly result?: unknown;
}

interface Arguments {
  readonly timed?: boolean;
  /** How long `report` works, in ms. */
  readonly workMs?: number;
  readonly mark?: string;
}

/** A call that waits for its answer. */
interface Asked {
  readonly callId: Message['id'];
  readonly isKept: boolean;
  /** `null` while nobody reads. */
  stream: ServerResponse | null;
  /** What a stream that is opened again is to be sent, in order; the first event has number 1. */
  readonly events: string[];
}

/** The streams of HTTP+SSE sessions. */
const sseStreams = new Map<string, ServerResponse>();
const SSE_MESSAGES = '/messages?session=';

/** By the id of the question, which also names the stream in the ids of events. */
const asked = new Map<string, Asked>();
let questions = 0;
const REPORT_EVERY_MS = 20;

const server = createServer((request, response) => {
  const lastEventId = request.headers['last-event-id'];
  if (request.method === 'GET' && typeof lastEventId === 'string') {
    readOn(lastEventId, response);
  } else if (request.method === 'GET' && request.url === '/sse') {
    openSse(response);
  } else if (request.method === 'GET') {
    response.writeHead(200, EVENT_STREAM).flushHeaders();
  } else if (request.method === 'POST' && request.url?.startsWith(SSE_MESSAGES)) {
    const stream = sseStreams.get(request.url.slice(SSE_MESSAGES.length));
    readBody(request).then(
      (text) => {
        response.writeHead(202).end();
        stream?.write(sseReply(JSON.parse(text) as Message));
      },
      () => response.destroy(),
    );
  } else if (request.method === 'POST') {
    readBody(request).then(
      (text) => answer(JSON.parse(text) as Message, request.url === '/kept', response),
      () => response.destroy(),
    );
  } else {
    response.writeHead(200).end();
  }
});

function answer(
  { id, method, params, result }: Message,
  isKept: boolean,
  response: ServerResponse,
): void {
  switch (method) {
    case 'tools/call':
      response.writeHead(200, EVENT_STREAM);
      if (params?.name === 'report') return report(id, params, response);
      if (params?.name === 'ask')
        return ask(id, params.arguments?.timed === true, isKept, response);
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

function openSse(response: ServerResponse): void {
  const session = randomUUID();
  sseStreams.set(session, response);
  response.on('close', () => sseStreams.delete(session));
  response.writeHead(200, EVENT_STREAM);
  response.write(`event: endpoint\ndata: ${SSE_MESSAGES}${session}\n\n`);
}

/** What goes over the stream of an HTTP+SSE session; nothing for a notification. */
function sseReply({ id, method, params }: Message): string {
  if (id === undefined) return '';
  if (method === 'initialize') return event({ id, result: INITIALIZED });
  if (method === 'tools/list') return event({ id, result: { tools: TOOLS } });
  if (method === 'tools/call') return event({ id, result: text(params?.arguments) });
  return event({ id, ...(method === 'ping' ? { result: {} } : { error: NO_SUCH_METHOD }) });
}

/** Reports its progress 50 times a second, and repeats of its arguments what marks the call. */
function report(
  id: Message['id'],
  { arguments: { workMs = 0, mark } = {}, _meta = {} }: NonNullable<Message['params']>,
  stream: ServerResponse,
): void {
  const { progressToken } = _meta;
  const reports = workMs / REPORT_EVERY_MS;
  let progress = 0;
  const timer = setInterval(() => {
    progress += 1;
    const params = { progressToken, progress, total: reports, message: `step ${progress}` };
    stream.write(event({ method: 'notifications/progress', params }));
    if (progress < reports) return;
    clearInterval(timer);
    stream.end(event({ id, result: text({ mark }) }));
  }, REPORT_EVERY_MS);
  stream.on('close', () => clearInterval(timer));
}

function ask(
  callId: Message['id'],
  isTimed: boolean,
  isKept: boolean,
  stream: ServerResponse,
): void {
  questions += 1;
  const id = String(questions);
  const call: Asked = { callId, isKept, stream: null, events: [] };
  asked.set(id, call);
  attach(id, call, stream);
  const params = isTimed ? { ...QUESTION, message: timedMessage() } : QUESTION;
  send(id, call, { id: questions, method: 'elicitation/create', params });
}

function attach(id: string, call: Asked, stream: ServerResponse): void {
  call.stream = stream;
  stream.on('close', () => {
    if (call.stream !== stream) return;
    call.stream = null;
    if (!call.isKept) asked.delete(id);
  });
}

function send(id: string, call: Asked, members: object): void {
  const text = event(members);
  if (!call.isKept) {
    call.stream?.write(text);
    return;
  }
  const numbered = `id: ${id}:${call.events.length + 1}\n${text}`;
  call.events.push(numbered);
  call.stream?.write(numbered);
}

/** The answer has come: the call ends, for whoever reads its stream now or later. */
function resume(id: string, result: unknown): void {
  const call = asked.get(id);
  if (call === undefined) return;
  send(id, call, { id: call.callId, result: text(result) });
  if (call.stream === null) return;
  asked.delete(id);
  call.stream.end();
}

function readOn(lastEventId: string, response: ServerResponse): void {
  const [id = '', seen] = lastEventId.split(':');
  const call = asked.get(id);
  if (call === undefined) {
    response.writeHead(404).end();
    return;
  }
  response.writeHead(200, EVENT_STREAM).flushHeaders();
  for (const missed of call.events.slice(Number(seen))) response.write(missed);
  attach(id, call, response);
}

const INITIALIZED = {
  protocolVersion: '2025-11-25',
  capabilities: { tools: {} },
  serverInfo: { name: 'bench-upstream', version: '1.0.0' },
};
const TOOLS = ['echo', 'ask', 'report'].map((name) => ({ name, inputSchema: { type: 'object' } }));
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
const [host = '127.0.0.1', port = '0'] = process.argv.slice(2);
server.listen(Number(port), host, () => announcePort(server));
