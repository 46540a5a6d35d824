/**
 * Client connections below the handlers: their timeouts, `Expect: 100-continue`, and the refusal of what
 * the HTTP parser rejects.
 */
import { STATUS_CODES, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { ErrorCode } from '../../protocol/json-rpc.ts';
import { refusalBody } from './refusal.ts';

/** How long a client can take to send a request and to read its response. */
export interface ClientTimeouts {
  /** From the first byte of a request to the end of its headers, in ms. */
  readonly headMs: number;
  /** From the first byte of a request to its last, in ms. */
  readonly requestMs: number;
  /** The interval at which connections are checked for the two limits above, in ms. */
  readonly checkEveryMs: number;
  /** Between two requests on one connection, in ms. */
  readonly idleMs: number;
  /** How long bytes can wait for a client that reads nothing, in ms. */
  readonly writeStallMs: number;
}

export const CLIENT_TIMEOUTS: ClientTimeouts = {
  headMs: 10_000,
  requestMs: 30_000,
  checkEveryMs: 1_000,
  // Longer than the 60 s of the usual load balancers, so that they close first.
  idleMs: 65_000,
  writeStallMs: 60_000,
};

/**
 * Sends `100 Continue` only after the headers have passed every check, so that no client uploads a body
 * that is refused anyway (RFC 9110, section 10.1.1). Node by itself sends it at once. Call this before the
 * server listens.
 */
export function continueAfterChecks(app: FastifyInstance): void {
  const waiting = new WeakSet<ServerResponse>();
  app.server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    waiting.add(response);
    app.server.emit('request', request, response);
  });
  app.addHook('preParsing', (_request, { raw }, payload, next) => {
    if (waiting.delete(raw)) raw.writeContinue();
    next(null, payload);
  });
}

interface ParserError {
  readonly httpStatus: number;
  readonly message: string;
}

const MALFORMED: ParserError = { httpStatus: 400, message: 'Malformed HTTP request' };
const PARSER_ERRORS: ReadonlyMap<string | undefined, ParserError> = new Map([
  [
    'ERR_HTTP_REQUEST_TIMEOUT',
    { httpStatus: 408, message: 'Request timeout: the whole request must arrive in time' },
  ],
  ['HPE_HEADER_OVERFLOW', { httpStatus: 431, message: 'Request headers are too large' }],
  ['HPE_CHUNK_EXTENSIONS_OVERFLOW', { httpStatus: 413, message: 'Chunk extensions are too large' }],
]);

interface OpenRequest {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

/** Responds to what the HTTP parser rejects, which no handler sees. */
export class ClientErrors {
  readonly #open = new WeakMap<Socket, Set<OpenRequest>>();
  readonly #last = new WeakMap<Socket, OpenRequest>();

  /** Tracks the requests that have no response yet, since nothing must be written between their bytes. */
  watch(server: Server): void {
    server.on('request', (request: IncomingMessage, response: ServerResponse) => {
      const pair = { request, response };
      this.#last.set(request.socket, pair);
      const open = this.#open.get(request.socket) ?? new Set();
      this.#open.set(request.socket, open.add(pair));
      response.once('close', () => open.delete(pair));
    });
  }

  /** Sends an error if the client can still take it for its own, and closes the connection. */
  refuse(error: NodeJS.ErrnoException, socket: Socket): void {
    if (error.code === 'ECONNRESET' || socket.destroyed) return;
    if (!socket.writable || this.#wouldBeMisread(socket)) {
      socket.destroy();
      return;
    }
    socket.write(responseText(PARSER_ERRORS.get(error.code) ?? MALFORMED));
    socket.destroySoon();
  }

  /**
   * Returns true if the client would read an error as the response, or as a part of the response, to an
   * earlier request; or if the malformed request already got its response.
   */
  #wouldBeMisread(socket: Socket): boolean {
    const last = this.#last.get(socket);
    if (last !== undefined && !last.request.complete && last.response.writableFinished) return true;
    for (const { request, response } of this.#open.get(socket) ?? []) {
      if (response.writableFinished) continue;
      if (request.complete || response.headersSent) return true;
    }
    return false;
  }
}

function responseText({ httpStatus, message }: ParserError): string {
  const error = { code: ErrorCode.invalidRequest, message };
  const body = JSON.stringify(refusalBody({ id: null, error }));
  return [
    `HTTP/1.1 ${httpStatus} ${STATUS_CODES[httpStatus]}`,
    'Connection: close',
    'Content-Type: application/json',
    `Content-Length: ${Buffer.byteLength(body)}`,
    '',
    body,
  ].join('\r\n');
}
