/**
 * HTTP towards one legacy server: one connection pool, no redirects, no decompression, no cookies,
 * bounded bodies. Streams have no body timeout here, since a parked call is silent for as long as a
 * human thinks; whoever holds a stream bounds it.
 */
import type { IncomingHttpHeaders } from 'node:http';
import type { Readable } from 'node:stream';
import { request } from 'undici';
import type { JsonValue } from '../../protocol/json/json.ts';
import { readMessage, type JsonRpcErrorObject } from '../../protocol/json-rpc.ts';
import { Connections, type Lane } from './connections.ts';
import { mayHaveActedWith } from './http-refusal.ts';
import { NotedWrite } from './noted-write.ts';
import { saysSessionGone } from '../session/session-gone.ts';
import { asUpstreamFailure, isBrokenConnection, UpstreamFailure } from '../failure.ts';
import { upload } from './upload.ts';
import { upstreamJson } from './json.ts';

export interface HttpClientOptions {
  readonly url: URL;
  /** Headers that the operator configured for this upstream; they win over everything. */
  readonly headers: Readonly<Record<string, string>>;
  readonly connectTimeoutMs: number;
  readonly headersTimeoutMs: number;
  readonly maxBodyBytes: number;
  readonly maxEventBytes: number;
}

export interface HttpRequestOptions {
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly url?: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly signal?: AbortSignal;
  readonly headersTimeoutMs?: number;
  /**
   * Whether the request may be sent once more, on a connection of its own, when the first one breaks
   * before an answer has begun. A server may close an idle connection in the moment in which it is used.
   */
  readonly repeatable?: boolean;
}

export interface HttpResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly mediaType: string;
  readonly body: Readable;
}

/** Bodies that say little more than the status did: read within these bounds or not at all. */
const SMALL_BODY_BYTES = 64 * 1024;
const SMALL_BODY_WAIT_MS = 5_000;

export class HttpClient {
  readonly #options: HttpClientOptions;
  readonly #connections: Connections;

  constructor(options: HttpClientOptions) {
    this.#options = options;
    this.#connections = new Connections({
      connect: { timeout: options.connectTimeoutMs, keepAlive: true },
      headersTimeout: options.headersTimeoutMs,
      bodyTimeout: 0,
      pipelining: 1,
      maxHeaderSize: 64 * 1024,
    });
  }

  get url(): URL {
    return this.#options.url;
  }

  get maxEventBytes(): number {
    return this.#options.maxEventBytes;
  }

  /**
   * Sends one HTTP request and resolves with the head of the answer.
   * @throws UpstreamFailure when no answer came, or one that MCP does not know (a redirect, a
   *   compressed body)
   */
  async send(exchange: HttpRequestOptions): Promise<HttpResponse> {
    try {
      return await this.#sendOver(this.#connections.take(), exchange);
    } catch (error) {
      if (exchange.repeatable !== true || !isBrokenConnection(error)) throw error;
      return this.#sendOver(this.#connections.takeNew(), exchange);
    }
  }

  async #sendOver(lane: Lane, exchange: HttpRequestOptions): Promise<HttpResponse> {
    const url = exchange.url ?? this.#options.url;
    const uploaded = upload(exchange.body);
    const write = new NotedWrite(lane.dispatcher);
    let answer;
    try {
      answer = await request(url, {
        dispatcher: write.dispatcher,
        method: exchange.method,
        headers: {
          ...exchange.headers,
          'accept-encoding': 'identity',
          ...uploaded.headers,
          ...this.#options.headers,
        },
        body: uploaded.body,
        signal: exchange.signal ?? null,
        headersTimeout: exchange.headersTimeoutMs ?? this.#options.headersTimeoutMs,
      });
    } catch (error) {
      lane.release();
      throw asUpstreamFailure(error, write.written && exchange.method === 'POST');
    }
    const body: Readable = answer.body;
    body.once('close', () => lane.release());
    const mediaType = String(answer.headers['content-type'] ?? '')
      .split(';', 1)[0]!
      .trim()
      .toLowerCase();
    const head = { status: answer.statusCode, headers: answer.headers, mediaType, body };
    refuseForeignForms(head);
    return head;
  }

  /** Reads a JSON body within the configured limit. Throws UpstreamFailure. */
  async readJson(answer: HttpResponse): Promise<JsonValue> {
    const text = await readText(answer.body, this.#options.maxBodyBytes);
    return upstreamJson(text);
  }

  /** Takes an answer that says all with its status; the body is dropped, a long or slow one cut. */
  discard(answer: HttpResponse): void {
    void readSmallText(answer.body).catch(() => {});
  }

  /** Turns an answer with an error status into the failure it means, consuming its body. */
  async failureOf(answer: HttpResponse, sentSession: boolean): Promise<UpstreamFailure> {
    const error = await readErrorBody(answer);
    const status = answer.status;
    const details = { mayHaveActed: mayHaveActedWith(status), httpStatus: status };
    const what = `HTTP ${status}${error === null ? '' : ` (JSON-RPC error ${error.code})`}`;
    if (sentSession && saysSessionGone(status, error)) {
      return new UpstreamFailure(
        'session_gone',
        `the server no longer knows the session: ${what}`,
        {
          ...details,
          mayHaveActed: false,
        },
      );
    }
    if (status === 401 || status === 403) {
      const challenge = answer.headers['www-authenticate'];
      return new UpstreamFailure('unauthorized', `the server refused the credentials: ${what}`, {
        ...details,
        ...(challenge === undefined ? {} : { wwwAuthenticate: String(challenge) }),
      });
    }
    if (status === 429 || status === 503) {
      const retryAfterMs = readRetryAfter(answer.headers['retry-after']);
      return new UpstreamFailure('upstream_busy', `the server is busy: ${what}`, {
        ...details,
        ...(retryAfterMs === null ? {} : { retryAfterMs }),
      });
    }
    if (status >= 500) return new UpstreamFailure('upstream_unavailable', what, details);
    return new UpstreamFailure('upstream_protocol_error', what, {
      ...details,
      ...(error === null ? {} : { rpcError: error }),
    });
  }

  /** Closes every connection at once. */
  async close(): Promise<void> {
    await this.#connections.close();
  }
}

function refuseForeignForms(answer: HttpResponse): void {
  const encoding = answer.headers['content-encoding'];
  const problem =
    answer.status >= 300 && answer.status < 400
      ? `it responded with a redirect (HTTP ${answer.status}), which the gateway does not follow`
      : encoding !== undefined && encoding !== 'identity'
        ? 'it sent a compressed body, which the gateway did not accept'
        : null;
  if (problem === null) return;
  answer.body.on('error', () => {}).destroy();
  const { location } = answer.headers;
  throw new UpstreamFailure('upstream_protocol_error', problem, {
    mayHaveActed: mayHaveActedWith(answer.status),
    httpStatus: answer.status,
    ...(location === undefined ? {} : { location }),
  });
}

async function readText(body: Readable, maxBytes: number): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body as AsyncIterable<Uint8Array>) {
    bytes += chunk.byteLength;
    if (bytes > maxBytes) {
      body.destroy();
      throw new UpstreamFailure(
        'upstream_protocol_error',
        `it sent a body larger than ${maxBytes} bytes`,
        { mayHaveActed: true },
      );
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** Ends a body that is not there within the time by an error. */
async function readSmallText(body: Readable): Promise<string> {
  const late = setTimeout(
    () => body.destroy(new Error(`the body was not complete within ${SMALL_BODY_WAIT_MS} ms`)),
    SMALL_BODY_WAIT_MS,
  );
  try {
    return await readText(body, SMALL_BODY_BYTES);
  } finally {
    clearTimeout(late);
  }
}

async function readErrorBody(answer: HttpResponse): Promise<JsonRpcErrorObject | null> {
  try {
    const text = await readSmallText(answer.body);
    if (answer.mediaType !== 'application/json') return null;
    const message = readMessage(upstreamJson(text));
    return message.type === 'response' && 'error' in message.reply ? message.reply.error : null;
  } catch {
    return null;
  }
}

function readRetryAfter(value: string | string[] | undefined): number | null {
  const seconds = Number(value);
  return Number.isFinite(seconds) && seconds >= 0 ? Math.min(seconds, 3600) * 1000 : null;
}
