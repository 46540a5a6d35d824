/**
 * What the HTTP parser itself refuses, which no handler ever sees: broken framing, heads that are too
 * large, and clients that take too long to send. They are answered in the form of all our refusals.
 */
import { STATUS_CODES, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { ErrorCode } from '../../protocol/json-rpc.ts';
import { rejectionBody } from './rejection.ts';

interface Refusal {
  readonly httpStatus: number;
  readonly message: string;
}

interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

const MALFORMED: Refusal = { httpStatus: 400, message: 'Malformed HTTP request' };
const REFUSALS: ReadonlyMap<string | undefined, Refusal> = new Map([
  [
    'ERR_HTTP_REQUEST_TIMEOUT',
    { httpStatus: 408, message: 'Request timeout: the whole request must arrive in time' },
  ],
  ['HPE_HEADER_OVERFLOW', { httpStatus: 431, message: 'Request headers are too large' }],
  ['HPE_CHUNK_EXTENSIONS_OVERFLOW', { httpStatus: 413, message: 'Chunk extensions are too large' }],
]);

/** Answers connections whose bytes do not parse. Made before the server, which it then watches. */
export class ClientErrors {
  readonly #exchanges = new WeakMap<Socket, Set<Exchange>>();
  readonly #last = new WeakMap<Socket, Exchange>();

  /** Learns which requests are being answered, since nothing may be written in between. */
  watch(server: Server): void {
    server.on('request', (request: IncomingMessage, response: ServerResponse) => {
      const exchange = { request, response };
      this.#last.set(request.socket, exchange);
      const open = this.#exchanges.get(request.socket) ?? new Set();
      this.#exchanges.set(request.socket, open.add(exchange));
      response.once('close', () => open.delete(exchange));
    });
  }

  /** Refuses what came, when the client can still be told, and closes the connection. */
  refuse(error: NodeJS.ErrnoException, socket: Socket): void {
    if (error.code === 'ECONNRESET' || socket.destroyed) return;
    if (!socket.writable || this.#mustNotAnswer(socket)) {
      socket.destroy();
      return;
    }
    socket.write(textOf(REFUSALS.get(error.code) ?? MALFORMED));
    socket.destroySoon();
  }

  /**
   * True when the next bytes on the connection would be taken for an answer, or for a part of one, to
   * a request before the broken one, or when the broken one was answered before it was all there.
   */
  #mustNotAnswer(socket: Socket): boolean {
    const last = this.#last.get(socket);
    if (last !== undefined && !last.request.complete && last.response.writableFinished) return true;
    for (const { request, response } of this.#exchanges.get(socket) ?? []) {
      if (response.writableFinished) continue;
      if (request.complete || response.headersSent) return true;
    }
    return false;
  }
}

function textOf({ httpStatus, message }: Refusal): string {
  const error = { code: ErrorCode.invalidRequest, message };
  const body = JSON.stringify(rejectionBody({ httpStatus, id: null, error }));
  return [
    `HTTP/1.1 ${httpStatus} ${STATUS_CODES[httpStatus]}`,
    'Connection: close',
    'Content-Type: application/json',
    `Content-Length: ${Buffer.byteLength(body)}`,
    '',
    body,
  ].join('\r\n');
}
