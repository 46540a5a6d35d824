/** A server over Streamable HTTP that is built with the official SDK, as its documentation says: a transport for each session. */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { callerOf, type Requests } from './requests.ts';
import { SdkSession } from './sdk-session.ts';
import type { Message, ServerOptions } from './sessions.ts';

export class SdkServer implements Requests {
  readonly #options: ServerOptions;
  readonly #sessions = new Map<string, SdkSession>();
  /** All that were ever opened. */
  readonly #opened: SdkSession[] = [];

  constructor(options: ServerOptions) {
    this.#options = options;
  }

  forget(): void {
    for (const session of this.#sessions.values()) session.close();
  }

  change(): void {
    for (const session of this.#sessions.values()) session.change();
  }

  readers(): string[] {
    return this.#opened.filter(({ isRead }) => isRead).map(({ client }) => client);
  }

  serve(request: IncomingMessage, response: ServerResponse, message: Message): void {
    if (message.method === 'initialize') return this.#begin(request, response, message);
    const session = this.#sessions.get(String(request.headers['mcp-session-id'] ?? ''));
    if (session === undefined) return void response.writeHead(404).end();
    session.serve(request, response, message);
  }

  #begin(request: IncomingMessage, response: ServerResponse, message: Message): void {
    const name = randomUUID();
    const { params } = message;
    const client = { name: params?.clientInfo?.name ?? '', caller: callerOf(request) };
    const session = new SdkSession(name, client, this.#options, () => this.#sessions.delete(name));
    this.#opened.push(session);
    this.#sessions.set(name, session);
    session.serve(request, response, message);
  }
}
