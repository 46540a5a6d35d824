/** Sends single requests, and records how the server responds to them. */
import type { JsonObject, JsonValue } from '../protocol/json/json.ts';
import { readMessage, type JsonRpcReply } from '../protocol/json-rpc.ts';
import { readEventStream } from '../upstream/transport/event-stream.ts';
import { HttpClient, type HttpResponse, type HttpRequestOptions } from '../upstream/http/client.ts';
import { upstreamJson } from '../upstream/http/json.ts';
import type { Deadline } from './deadline.ts';

export interface ProbeRequest {
  readonly id: number;
  readonly method: string;
  readonly params: JsonObject;
  readonly headers: Readonly<Record<string, string>>;
}

export interface ProbeResponse {
  readonly status: number;
  readonly mediaType: string;
  readonly sessionId: string | null;
  /** The ids of the events, up to that of the reply. */
  readonly eventIds: readonly string[];
  /** `null` if there was no reply with the id of the request. */
  readonly reply: JsonRpcReply | null;
}

/** How long a stream may stay open after its reply. */
const LINGER_MS = 500;

/**
 * Sends a JSON-RPC request in one POST and reads the response up to its reply.
 * @throws UpstreamFailure, or the error of the body if the signal aborts
 */
export async function ask(
  http: HttpClient,
  { id, method, params, headers }: ProbeRequest,
  deadline: Deadline,
  signal: AbortSignal,
): Promise<ProbeResponse> {
  const answer = await http.send({
    method: 'POST',
    headers: {
      ...headers,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
    },
    body: JSON.stringify({ jsonrpc: '2.0', id, method, params }),
    signal,
  });
  const { status, mediaType } = answer;
  const head = { status, mediaType, sessionId: readSessionId(answer) };
  if (status < 400 && mediaType === 'application/json') {
    return { ...head, eventIds: [], reply: replyIn(await http.readJson(answer), id) };
  }
  if (status < 400 && mediaType === 'text/event-stream') {
    return { ...head, ...(await readUntilReply(http, answer, id, deadline)) };
  }
  http.discard(answer);
  return { ...head, eventIds: [], reply: null };
}

/** Finds the reply to a request in a message or, as in 2025-03-26, in a batch. */
export function replyIn(value: JsonValue, id: number): JsonRpcReply | null {
  for (const element of Array.isArray(value) ? value : [value]) {
    const message = readMessage(element);
    if (message.type === 'response' && message.id === id) return message.reply;
  }
  return null;
}

async function readUntilReply(
  http: HttpClient,
  answer: HttpResponse,
  id: number,
  deadline: Deadline,
): Promise<Pick<ProbeResponse, 'eventIds' | 'reply'>> {
  const eventIds: string[] = [];
  const found: { reply: JsonRpcReply | null } = { reply: null };
  const linger = { timer: null as ReturnType<Deadline['setTimer']> | null };
  try {
    await readEventStream(answer.body, http.maxEventBytes, {
      retry: () => {},
      event: (event) => {
        if (found.reply !== null) return;
        if (event.id !== undefined) eventIds.push(event.id);
        if (event.event !== 'message' || event.data === '') return;
        found.reply = replyIn(upstreamJson(event.data), id);
        if (found.reply === null) return;
        linger.timer = deadline.setTimer(LINGER_MS, () => answer.body.destroy());
      },
    });
  } catch (error) {
    answer.body.on('error', () => {}).destroy();
    if (found.reply === null) throw error;
  } finally {
    linger.timer?.cancel();
  }
  return { eventIds, reply: found.reply };
}

export interface RecordedResponse {
  readonly method: HttpRequestOptions['method'];
  readonly status: number;
  /** The session id in the response. It is a credential: it is sent to the server only. */
  readonly sessionId: string | null;
}

export class RecordingHttpClient extends HttpClient {
  readonly #recorded: RecordedResponse[] = [];

  /** Finds the first response to a request with this method. */
  first(method: HttpRequestOptions['method']): RecordedResponse | null {
    return this.#recorded.find((one) => one.method === method) ?? null;
  }

  /** Finds the last response to a request with this method. */
  last(method: HttpRequestOptions['method']): RecordedResponse | null {
    return this.#recorded.findLast((one) => one.method === method) ?? null;
  }

  /** The first session id that the server issued. */
  get sessionId(): string | null {
    return this.#recorded.find(({ sessionId }) => sessionId !== null)?.sessionId ?? null;
  }

  override async send(exchange: HttpRequestOptions): Promise<HttpResponse> {
    const answer = await super.send(exchange);
    this.#recorded.push({
      method: exchange.method,
      status: answer.status,
      sessionId: readSessionId(answer),
    });
    return answer;
  }
}

/** Reads the session id of a response. */
function readSessionId(answer: HttpResponse): string | null {
  const value = answer.headers['mcp-session-id'];
  return typeof value === 'string' && value !== '' ? value : null;
}
