/**
 * A legacy server over Streamable HTTP, with a store of events. Its tools ask on the stream of their call (`twice`) or on
 * the one of their session (`beside`). Each question says whose it is, and all is in a journal.
 */
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import { Random } from '../engine/random.ts';
import { simulation } from '../engine/simulation.ts';
import { network } from '../network/tcp-model.ts';
import { TOOLS } from './history.ts';

type Json = Readonly<Record<string, unknown>>;

/** What the server saw and did for a call. */
export interface JournalEntry {
  readonly what: 'called' | 'asked' | 'answered' | 'acted' | 'resumed' | 'cancelled';
  readonly call: string;
  readonly atMs: number;
  readonly session: string;
  /** The process at the other end, or `nobody`. */
  readonly by: string;
  /** Of `asked`: the id of the question, the stream, and the number of the event. */
  readonly question?: string;
  readonly stream?: string;
  /** Of `asked`, and of `resumed`: the last event that the reader has. */
  readonly event?: number;
}

interface Message {
  readonly id?: string | number;
  readonly method?: string;
  readonly params?: {
    readonly name?: string;
    readonly arguments?: { readonly call?: string };
    readonly requestId?: string | number;
  };
  readonly result?: { readonly content?: { readonly name?: string } };
}

interface Stream {
  readonly name: string;
  readonly frames: string[];
  response: ServerResponse | null;
  isOver: boolean;
}

interface Session {
  readonly name: string;
  readonly standalone: Stream;
  readonly streams: Map<string, Stream>;
  /** The calls, by the ids of their requests. */
  readonly calls: Map<string, string>;
  readonly questions: Map<string, (answer: string, by: string) => void>;
}

const SLOWEST_MS = 200;
const ANSWER_WITHIN_MS = 40_000;
const PROTOCOL = '2025-06-18';
const STANDALONE = 'standalone';

/** Listens at `port`, as the process that calls it. `workMs` says how long the tool of a call works. */
export function startLegacyServer(port: number, workMs: (call: string) => number): JournalEntry[] {
  const model = new LegacyServer(workMs);
  const server = http.createServer((request, response) => {
    response.on('error', () => {});
    void model.serve(request, response);
  });
  // They compare with the clock of the machine.
  Object.assign(server, { requestTimeout: 0, headersTimeout: 0 });
  server.listen(port, '127.0.0.1');
  return model.journal;
}

class LegacyServer {
  readonly journal: JournalEntry[] = [];
  readonly #sessions = new Map<string, Session>();
  readonly #workMs: (call: string) => number;
  #questions = 0;
  #begun = 0;

  constructor(workMs: (call: string) => number) {
    this.#workMs = workMs;
  }

  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const text = await bodyOf(request);
    if (text === null) return;
    const id = String(request.headers['mcp-session-id'] ?? '');
    const session = this.#sessions.get(id);
    const message = (text === '' ? {} : JSON.parse(text)) as Message;
    if (message.method === 'initialize') return this.#begin(message, response);
    if (session === undefined) return void response.writeHead(404).end();
    if (request.method === 'GET') return this.#resume(request, response, session);
    if (request.method === 'DELETE') {
      this.#sessions.delete(id);
      return void response.writeHead(200).end();
    }
    if (message.method === undefined || message.id === undefined) {
      response.writeHead(202).end();
      if (message.method === 'notifications/cancelled') {
        // As many servers do: the tool goes on.
        const call = session.calls.get(String(message.params?.requestId)) ?? '';
        this.#note('cancelled', call, { session: session.name, by: peerOf(response) });
      }
      const question = String(message.id);
      const answer = message.result?.content?.name ?? 'nothing';
      session.questions.get(question)?.(answer, peerOf(response));
      session.questions.delete(question);
      return;
    }
    if (message.method === 'tools/call') return this.#call(message, response, session);
    reply(response, { jsonrpc: '2.0', id: message.id, ...resultOf(message.method) });
  }

  #begin({ id }: Message, response: ServerResponse): void {
    const name = `session-${++this.#begun}`;
    this.#sessions.set(name, {
      name,
      standalone: newStream(STANDALONE),
      streams: new Map(),
      calls: new Map(),
      questions: new Map(),
    });
    const serverInfo = { name: 'simulated', version: '1' };
    const result = { protocolVersion: PROTOCOL, capabilities: { tools: {} }, serverInfo };
    reply(response, { jsonrpc: '2.0', id, result }, { 'mcp-session-id': name });
  }

  async #call(message: Message, response: ServerResponse, session: Session): Promise<void> {
    const call = message.params?.arguments?.call ?? '';
    const stream = newStream(`call-${session.streams.size + 1}`);
    session.streams.set(stream.name, stream);
    session.calls.set(String(message.id), call);
    send(stream, null);
    open(stream, response, 0);
    this.#note('called', call, { session: session.name, by: peerOf(response) });
    const text = await this.#work(message.params?.name ?? '', call, session, stream);
    const result = { content: [{ type: 'text', text }] };
    send(stream, { jsonrpc: '2.0', id: message.id, result });
    stream.isOver = true;
    stream.response?.end();
  }

  async #work(tool: string, call: string, session: Session, stream: Stream): Promise<string> {
    const random = new Random(`${simulation().seed}:works:${call}`);
    if (tool === 'twice') {
      const first = await this.#ask(session, stream, call);
      await simulation().sleep(this.#workMs(call));
      this.#note('acted', call, { session: session.name, by: peerOf(stream.response) });
      return first + (await this.#ask(session, stream, call));
    }
    await simulation().sleep(random.below(SLOWEST_MS));
    const answer = tool === 'beside' ? await this.#ask(session, session.standalone, call) : '';
    this.#note('acted', call, { session: session.name, by: peerOf(stream.response) });
    return answer;
  }

  #ask(session: Session, stream: Stream, call: string): Promise<string> {
    const id = `question-${++this.#questions}`;
    const by = peerOf(stream.response);
    const place = { stream: stream.name, event: stream.frames.length + 1 };
    this.#note('asked', call, { session: session.name, by, question: id, ...place });
    send(stream, {
      jsonrpc: '2.0',
      id,
      method: 'elicitation/create',
      params: {
        message: `call=${call};question=${id};`,
        requestedSchema: { type: 'object', properties: { name: { type: 'string' } } },
      },
    });
    return new Promise((resolve) => {
      // As servers of the SDK do: a question between two readers of the stream can be lost.
      simulation().after(ANSWER_WITHIN_MS, () => {
        if (session.questions.delete(id)) resolve('timeout');
      });
      session.questions.set(id, (answer, by) => {
        this.#note('answered', call, { session: session.name, by, question: id });
        resolve(answer);
      });
    });
  }

  /** Continues a stream after the event that the client names, or the one of the session from now on. */
  #resume(request: IncomingMessage, response: ServerResponse, session: Session): void {
    const lastEvent = String(request.headers['last-event-id'] ?? STANDALONE);
    const [name = STANDALONE, number] = lastEvent.split(':');
    const stream = name === STANDALONE ? session.standalone : session.streams.get(name);
    if (stream === undefined) return void response.writeHead(400).end();
    if (name === STANDALONE && number === undefined && stream.response !== null) {
      return void response.writeHead(409).end();
    }
    stream.response?.end();
    const from = number === undefined ? stream.frames.length : Number(number);
    open(stream, response, from);
    const place = { stream: name, event: from };
    this.#note('resumed', '', { session: session.name, by: peerOf(response), ...place });
  }

  #note(
    what: JournalEntry['what'],
    call: string,
    more: Omit<JournalEntry, 'what' | 'call' | 'atMs'>,
  ): void {
    this.journal.push({ what, call, atMs: simulation().nowMs, ...more });
    simulation().log(`server: ${what} ${call} by ${more.by} ${more.stream ?? ''}`);
    simulation().onMoment(what, more.by);
  }
}

/** The process at the other end of a response. */
function peerOf(response: ServerResponse | null): string {
  return network().ownerOf(response?.socket?.remotePort);
}

function open(stream: Stream, response: ServerResponse, from: number): void {
  stream.response = response;
  response.on('close', () => {
    if (stream.response === response) stream.response = null;
  });
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.flushHeaders();
  for (const frame of stream.frames.slice(from)) response.write(frame);
  if (stream.isOver) response.end();
}

function send(stream: Stream, message: Json | null): void {
  const id = `${stream.name}:${stream.frames.length + 1}`;
  const frame = `id: ${id}\ndata: ${message === null ? '' : JSON.stringify(message)}\n\n`;
  stream.frames.push(frame);
  stream.response?.write(frame);
}

function newStream(name: string): Stream {
  return { name, frames: [], response: null, isOver: false };
}

function resultOf(method: string): Json {
  if (method === 'ping') return { result: {} };
  if (method !== 'tools/list') return { error: { code: -32_601, message: 'Method not found' } };
  return { result: { tools: TOOLS.map((name) => ({ name, inputSchema: { type: 'object' } })) } };
}

function reply(
  response: ServerResponse,
  message: Json,
  headers: Record<string, string> = {},
): void {
  response.writeHead(200, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify(message));
}

/** @returns `null` if the request breaks off */
async function bodyOf(request: IncomingMessage): Promise<string | null> {
  try {
    let text = '';
    for await (const bytes of request) text += String(bytes);
    return text;
  } catch {
    return null;
  }
}
