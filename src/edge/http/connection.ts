/**
 * Client connections below the handlers: their timeouts, `Expect: 100-continue`, and the refusal of what
 * the HTTP parser rejects.
 */
import {
  STATUS_CODES,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { Socket } from 'node:net';
import { StallWatch } from '../../lib/http.ts';
import { ErrorCode } from '../../protocol/json-rpc.ts';
import { refusalBody } from '../response-writer.ts';

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

/** The connections of clients, with their requests that have no response yet. */
export class ClientConnections {
  readonly #stalls: StallWatch;
  readonly #onStalled: (request: IncomingMessage) => void;
  /** The last response of a connection, after those before it that are not sent. */
  readonly #responses = new WeakMap<Socket, ServerResponse[]>();
  readonly #waitForContinue = new WeakSet<ServerResponse>();

  /**
   * @param writeStallMs how long bytes can wait for a client that reads nothing, in ms
   * @param onStalled called with the request whose response is cut for that
   */
  constructor(writeStallMs: number, onStalled: (request: IncomingMessage) => void) {
    this.#stalls = new StallWatch(writeStallMs);
    this.#onStalled = onStalled;
  }

  /**
   * Takes over the requests of a server, and what its parser rejects.
   * @param serve called with each request
   */
  attach(server: Server, serve: RequestListener): void {
    server.on('request', (request: IncomingMessage, response: ServerResponse) => {
      this.#track(response, request.socket);
      serve(request, response);
    });
    server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
      this.#waitForContinue.add(response);
      server.emit('request', request, response);
    });
    server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
      this.#refuse(error, socket);
    });
    server.setTimeout(this.#stalls.lookEveryMs, (socket: Socket) => {
      const isStalled = this.#stalls.isStalled(socket);
      const unread = isStalled ? this.#unfinishedOf(socket)[0] : undefined;
      if (unread !== undefined) this.#onStalled(unread.req);
      if (isStalled || this.#isIdle(socket)) socket.destroy();
    });
  }

  /**
   * Sends `100 Continue` if the client waits for it. Node by itself sends it at once, and clients would upload
   * bodies that are refused for their headers (RFC 9110, section 10.1.1).
   */
  continue(response: ServerResponse): void {
    if (this.#waitForContinue.delete(response)) response.writeContinue();
  }

  /** Sends an error of the HTTP parser if the client can still take it for its own, and closes the connection. */
  #refuse(error: NodeJS.ErrnoException, socket: Socket): void {
    if (error.code === 'ECONNRESET' || socket.destroyed) return;
    if (!socket.writable || this.#wouldBeMisread(socket)) {
      socket.destroy();
      return;
    }
    socket.write(responseText(PARSER_ERRORS.get(error.code) ?? MALFORMED));
    socket.destroySoon();
  }

  #track(response: ServerResponse, socket: Socket): void {
    const responses = this.#responses.get(socket) ?? [];
    while (responses[0]?.writableFinished === true) responses.shift();
    if (responses.push(response) === 1) this.#responses.set(socket, responses);
  }

  /** Returns the responses of a connection that are not sent whole. */
  #unfinishedOf(socket: Socket): readonly ServerResponse[] {
    return this.#responses.get(socket)?.filter(({ writableFinished }) => !writableFinished) ?? [];
  }

  /** Returns true between two requests. For the first one, the limits of requests hold. */
  #isIdle(socket: Socket): boolean {
    return this.#responses.has(socket) && this.#unfinishedOf(socket).length === 0;
  }

  /**
   * Returns true if the client would read an error as the response, or as a part of the response, to an
   * earlier request; or if the malformed request already got its response.
   */
  #wouldBeMisread(socket: Socket): boolean {
    const last = this.#responses.get(socket)?.at(-1);
    if (last !== undefined && !last.req.complete && last.writableFinished) return true;
    return this.#unfinishedOf(socket).some(({ req, headersSent }) => req.complete || headersSent);
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
