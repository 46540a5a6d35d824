/** A simulated server over Streamable HTTP. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { simulation } from '../../engine/simulation.ts';
import {
  type Json,
  type Line,
  type Message,
  PROTOCOL,
  type ServerOptions,
  ServerSession,
} from './sessions.ts';
import { tokenEndMs } from '../tokens.ts';
import { callerOf, peerOf, type Requests, replyWithJson } from './requests.ts';

export const STANDALONE = 'standalone';

/** As a repetition comes that shows nothing of new messages. */
const REPEATS_AFTER_MS = 900;

/** What a server that ends connections sooner says before: when its clients are to come again. */
const SOON_MS = 2_000;
const RETRY_MS = 500;

/** A stream over as many connections as it takes. */
class EventStream implements Line {
  readonly name: string;
  readonly #options: ServerOptions;
  readonly #frames: string[] = [];
  #response: ServerResponse | null = null;
  #isHeadHeld = false;
  #isOver = false;
  #isRepeating = false;

  constructor(name: string, options: ServerOptions) {
    this.name = name;
    this.#options = options;
  }

  get isOpen(): boolean {
    return this.#response !== null;
  }

  get length(): number {
    return this.#frames.length;
  }

  reader(): string {
    return peerOf(this.#response);
  }

  /** Continues after so many messages; `null` for those from now on. */
  open(response: ServerResponse, from: number | null, isGet = true): void {
    const { traits } = this.#options;
    this.#response?.end();
    this.#response = response;
    response.on('close', () => {
      if (this.#response === response) this.#response = null;
    });
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const missed = from === null ? [] : this.#frames.slice(from);
    this.#isRepeating = isGet && traits.onlyRepeats && this.name !== STANDALONE;
    if (this.#isRepeating) {
      response.flushHeaders();
      return simulation().after(REPEATS_AFTER_MS, () => {
        for (const frame of missed) response.write(frame);
      });
    }
    this.#isHeadHeld = isGet && traits.holdsHeads;
    if (!this.#isHeadHeld) response.flushHeaders();
    for (const frame of missed) response.write(frame);
    if (this.#isOver) response.end();
    const { endsConnectionsMs } = traits;
    if (this.name === STANDALONE && traits.endsStandalone) return void response.end();
    if (endsConnectionsMs === null || this.name === STANDALONE) return;
    simulation().after(endsConnectionsMs, () => {
      if (this.#response !== response) return;
      // One that ends responses so soon and says nothing in them is taken for a server that no longer has the stream.
      if (endsConnectionsMs < SOON_MS) response.write(`retry: ${RETRY_MS}\n\n`);
      response.end();
    });
  }

  send(message: Json | null): void {
    const { hasStore } = this.#options.traits;
    const id = hasStore ? `id: ${this.name}:${this.#frames.length + 1}\n` : '';
    const frame = `${id}data: ${message === null ? '' : JSON.stringify(message)}\n\n`;
    if (hasStore) this.#frames.push(frame);
    if (!this.#isRepeating) this.#response?.write(frame);
  }

  end(): void {
    this.#isOver = true;
    if (!this.#isRepeating) this.#response?.end();
  }
}

interface StreamableSession {
  /** What its client says that its name is. */
  readonly client: string;
  readonly session: ServerSession;
  readonly standalone: EventStream;
  readonly streams: Map<string, EventStream>;
}

export class StreamableHttpServer implements Requests {
  readonly #options: ServerOptions;
  readonly #sessions = new Map<string, StreamableSession>();
  /** All that were ever opened. */
  readonly #opened: StreamableSession[] = [];

  constructor(options: ServerOptions) {
    this.#options = options;
  }

  forget(): void {
    for (const { session, standalone, streams } of this.#sessions.values()) {
      session.forget();
      standalone.end();
      for (const stream of streams.values()) stream.end();
    }
    this.#sessions.clear();
  }

  change(): void {
    for (const { session } of this.#sessions.values()) session.change();
  }

  readers(): string[] {
    return this.#opened.flatMap(({ client, standalone, streams }) =>
      [standalone, ...streams.values()].some(({ isOpen }) => isOpen) ? [client] : [],
    );
  }

  serve(request: IncomingMessage, response: ServerResponse, message: Message): void {
    if (message.method === 'initialize') return this.#begin(request, response, message);
    const found = this.#sessions.get(String(request.headers['mcp-session-id'] ?? ''));
    if (found === undefined) return void response.writeHead(404).end();
    const { session } = found;
    session.heard(peerOf(response), tokenEndMs(request.headers.authorization ?? ''));
    if (request.method === 'GET') {
      const { opensAfterMs } = this.#options.traits;
      const isSlow = opensAfterMs > 0 && request.headers['last-event-id'] === undefined;
      if (!isSlow) return this.#resume(request, response, found);
      return simulation().after(opensAfterMs, () => {
        if (!response.destroyed) this.#resume(request, response, found);
      });
    }
    if (request.method === 'DELETE') {
      this.#sessions.delete(session.name);
      found.standalone.end();
      return void response.writeHead(200).end();
    }
    const { id, method } = message;
    if (method === undefined || id === undefined) {
      const { takesAnswersMs } = this.#options.traits;
      const isAnswer = method === undefined && takesAnswersMs > 0;
      if (!isAnswer) response.writeHead(202).end();
      else simulation().after(takesAnswersMs, () => response.writeHead(202).end());
      return session.receive(message, peerOf(response));
    }
    if (method === 'tools/call') return this.#call(response, message, found);
    if (method === 'logging/setLevel') {
      if (!session.takeLevel()) return void response.writeHead(503).end();
      return replyWithJson(response, { jsonrpc: '2.0', id, result: {} });
    }
    replyWithJson(response, { jsonrpc: '2.0', id, ...session.replyTo(method) });
  }

  #begin(request: IncomingMessage, response: ServerResponse, { id, params }: Message): void {
    const name = `session${this.#opened.length + 1}`;
    const standalone = new EventStream(STANDALONE, this.#options);
    const session = new ServerSession(name, callerOf(request), standalone, this.#options);
    const client = params?.clientInfo?.name ?? '';
    const opened = { client, session, standalone, streams: new Map<string, EventStream>() };
    this.#opened.push(opened);
    this.#sessions.set(name, opened);
    const reply = { jsonrpc: '2.0', id, result: session.greeting() };
    replyWithJson(response, reply, { 'mcp-session-id': name, 'mcp-protocol-version': PROTOCOL });
  }

  #call(response: ServerResponse, message: Message, found: StreamableSession): void {
    const { session, streams } = found;
    const { repliesWithJson, hasStore } = this.#options.traits;
    if (repliesWithJson && message.params?.name === 'plain') {
      const line = {
        reader: () => peerOf(response),
        send: (reply: Json) => replyWithJson(response, reply),
      };
      return void session.call(message, line);
    }
    const stream = new EventStream(`call${streams.size + 1}`, this.#options);
    streams.set(stream.name, stream);
    stream.open(response, 0, false);
    // An event at once, so that the stream can be resumed.
    if (hasStore) stream.send(null);
    void session.call(message, stream).then(() => stream.end());
  }

  #resume(request: IncomingMessage, response: ServerResponse, found: StreamableSession): void {
    const { session, standalone, streams } = found;
    const { traits, journal } = this.#options;
    const last = request.headers['last-event-id'];
    const [name = STANDALONE, number] = typeof last === 'string' ? last.split(':') : [];
    const stream = name === STANDALONE ? standalone : streams.get(name);
    if (stream === undefined) return void response.writeHead(400).end();
    const isNew = number === undefined;
    if (isNew && stream.isOpen && traits.secondStream === 'refused') {
      return void response.writeHead(409).end();
    }
    const event = isNew ? stream.length : Number(number);
    stream.open(response, isNew ? null : event);
    journal.note('resumed', '', {
      session: session.name,
      by: peerOf(response),
      stream: name,
      event,
    });
  }
}
