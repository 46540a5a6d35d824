/** One JSON-RPC request over one POST, and everything about how it was answered. */
import type { JsonObject, JsonValue } from '../protocol/json/json.ts';
import { readMessage, type JsonRpcReply } from '../protocol/json-rpc.ts';
import { readEventStream } from '../upstream/transport/event-stream.ts';
import type { HttpAnswer, HttpClient } from '../upstream/http/client.ts';
import { upstreamJson } from '../upstream/http/json.ts';
import type { Deadline } from './deadline.ts';
import { handedOut } from './watched-http.ts';

export interface Question {
  readonly id: number;
  readonly method: string;
  readonly params: JsonObject;
  readonly headers: Readonly<Record<string, string>>;
}

export interface Answered {
  readonly status: number;
  readonly mediaType: string;
  readonly sessionId: string | null;
  /** The ids of the events, in order, up to that of the response. */
  readonly eventIds: readonly string[];
  /** `null` when no response with the id of the request came. */
  readonly reply: JsonRpcReply | null;
}

/** A stream whose response has come is given this long to end by itself. */
const LINGER_MS = 500;

/**
 * Sends the request and reads until its response is there.
 * @throws UpstreamFailure, or whatever the body fails with when the signal aborts
 */
export async function ask(
  http: HttpClient,
  { id, method, params, headers }: Question,
  deadline: Deadline,
  signal: AbortSignal,
): Promise<Answered> {
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
  const head = { status, mediaType, sessionId: handedOut(answer) };
  if (status < 400 && mediaType === 'application/json') {
    return { ...head, eventIds: [], reply: replyIn(await http.readJson(answer), id) };
  }
  if (status < 400 && mediaType === 'text/event-stream') {
    return { ...head, ...(await readUntilReply(http, answer, id, deadline)) };
  }
  http.discard(answer);
  return { ...head, eventIds: [], reply: null };
}

/** The reply to the request with this id in a message or, as in 2025-03-26, in one of several. */
export function replyIn(value: JsonValue, id: number): JsonRpcReply | null {
  for (const element of Array.isArray(value) ? value : [value]) {
    const message = readMessage(element);
    if (message.type === 'response' && message.id === id) return message.reply;
  }
  return null;
}

async function readUntilReply(
  http: HttpClient,
  answer: HttpAnswer,
  id: number,
  deadline: Deadline,
): Promise<Pick<Answered, 'eventIds' | 'reply'>> {
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
