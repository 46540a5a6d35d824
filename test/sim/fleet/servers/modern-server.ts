/** A simulated server of 2026-07-28 over HTTP. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  ERRORS,
  type Exchange,
  type Id,
  MODERN,
  ModernRequests,
  type ModernParams,
  PARAMETER,
} from './modern-requests.ts';
import { callerOf, peerOf, replyWithJson, type Requests } from './requests.ts';
import type { Json, Message, ServerOptions } from './sessions.ts';

const VERSION_HEADER = 'mcp-protocol-version';
const PARAMETER_HEADER = `mcp-param-${PARAMETER.toLowerCase()}`;

export class ModernServer implements Requests {
  readonly #options: ServerOptions;
  readonly #requests: ModernRequests;
  readonly #open = new Set<ServerResponse>();

  constructor(options: ServerOptions) {
    this.#options = options;
    this.#requests = new ModernRequests(options);
  }

  /** It keeps nothing, but restarts: all that is open breaks. */
  forget(): void {
    for (const response of this.#open) response.destroy();
  }

  change(): void {
    this.#requests.change();
  }

  readers(): string[] {
    return this.#requests.readers();
  }

  serve(request: IncomingMessage, response: ServerResponse, message: Message): void {
    this.#open.add(response);
    response.on('close', () => this.#open.delete(response));
    if (request.method !== 'POST') return void response.writeHead(405).end();
    const { id, method } = message;
    const params: ModernParams = message.params ?? {};
    const exchange = new HttpExchange(id, request, response);
    const isLegacy = request.headers[VERSION_HEADER] !== MODERN;
    const isFit = isLegacy || this.#areRepeated(request, message, params);
    if (!isFit) return exchange.refuse(400, ERRORS.mismatch);
    this.#requests.serve(method, params, exchange);
  }

  /** Whether the headers say what the body says ("Request Metadata"). */
  #areRepeated({ headers }: IncomingMessage, { method }: Message, params: ModernParams): boolean {
    if (headers['mcp-method'] !== method) return false;
    if (method !== 'tools/call') return true;
    const { wantsHeaders } = this.#options.traits;
    const isRepeated = headers[PARAMETER_HEADER] === params.arguments?.call;
    return headers['mcp-name'] === params.name && (!wantsHeaders || isRepeated);
  }
}

class HttpExchange implements Exchange {
  readonly id: Id;
  readonly by: string;
  readonly caller: string;
  readonly isDead = false;
  readonly #response: ServerResponse;
  #isStream = false;
  #isOver = false;

  constructor(id: Id, request: IncomingMessage, response: ServerResponse) {
    this.id = id;
    this.by = peerOf(response);
    this.caller = callerOf(request);
    this.#response = response;
  }

  get isClosed(): boolean {
    return this.#response.destroyed;
  }

  onClosed(listener: () => void): void {
    this.#response.on('close', () => {
      if (!this.#isOver) listener();
    });
  }

  begin(): void {
    this.#isStream = true;
    this.#response.writeHead(200, { 'content-type': 'text/event-stream' });
    this.#response.flushHeaders();
  }

  notify(method: string, params: Json): void {
    this.#write({ jsonrpc: '2.0', method, params });
  }

  reply(result: Json): void {
    this.#isOver = true;
    const message = { jsonrpc: '2.0', id: this.id, result };
    if (!this.#isStream) return replyWithJson(this.#response, message);
    this.#write(message);
    this.#response.end();
  }

  refuse(status: number, error: Json): void {
    this.#isOver = true;
    this.#response.writeHead(status, { 'content-type': 'application/json' });
    this.#response.end(JSON.stringify({ jsonrpc: '2.0', id: this.id ?? null, error }));
  }

  #write(message: Json): void {
    this.#response.write(`data: ${JSON.stringify(message)}\n\n`);
  }
}
