/** A simulated server over HTTP+SSE: one stream for a session, and the session ends with it. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Line, type Message, type ServerOptions, ServerSession } from './sessions.ts';
import { callerOf, peerOf, type Requests } from './requests.ts';

interface SseSession {
  readonly session: ServerSession;
  readonly response: ServerResponse;
  readonly line: Line;
}

export class HttpSseServer implements Requests {
  readonly #options: ServerOptions;
  readonly #sessions = new Map<string, SseSession>();
  #opened = 0;

  constructor(options: ServerOptions) {
    this.#options = options;
  }

  forget(): void {
    for (const { session, response } of this.#sessions.values()) {
      session.forget();
      response.end();
    }
    this.#sessions.clear();
  }

  change(): void {
    for (const { session } of this.#sessions.values()) session.change();
  }

  readers(): string[] {
    return [];
  }

  serve(request: IncomingMessage, response: ServerResponse, message: Message): void {
    const url = new URL(request.url ?? '', 'http://server');
    if (request.method === 'GET' && url.pathname === '/sse') return this.#begin(request, response);
    const found = this.#sessions.get(url.searchParams.get('session') ?? '');
    if (request.method !== 'POST' || url.pathname === '/sse') {
      return void response.writeHead(405).end();
    }
    if (found === undefined) return void response.writeHead(404).end();
    response.writeHead(202).end();
    const { session, line } = found;
    const { id, method } = message;
    if (method === undefined || id === undefined) return session.receive(message, peerOf(response));
    if (method === 'tools/call') return void session.call(message, line);
    const isFirst = method === 'initialize';
    const reply = isFirst ? { result: session.greeting() } : session.replyTo(method);
    line.send({ jsonrpc: '2.0', id, ...reply });
  }

  #begin(request: IncomingMessage, response: ServerResponse): void {
    this.#opened += 1;
    const name = `session${this.#opened}`;
    const send = (event: string, data: string) =>
      response.write(`event: ${event}\ndata: ${data}\n\n`);
    const line: Line = {
      reader: () => peerOf(response),
      send: (message) => send('message', JSON.stringify(message)),
    };
    const session = new ServerSession(name, callerOf(request), line, this.#options);
    this.#sessions.set(name, { session, response, line });
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    send('endpoint', `/messages?session=${name}`);
    response.on('close', () => {
      session.forget();
      this.#sessions.delete(name);
    });
  }
}
