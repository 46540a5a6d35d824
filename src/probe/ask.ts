/** Sends single requests, records how the server responds to them, and bounds the time of them all. */
import type { Clock, Timer } from '../lib/clock.ts';
import type { JsonObject, JsonValue } from '../protocol/json.ts';
import { readMessage, type JsonRpcReply } from '../protocol/json-rpc.ts';
import { asUpstreamFailure } from '../model/upstream-failure.ts';
import { HttpClient, type HttpClientOptions } from '../upstream/http/client.ts';
import { postOf, type HttpRequest, type ResponseHead } from '../upstream/http/http-request.ts';
import { MessageReader } from '../upstream/http/readers.ts';

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

/** What the requests of a probe have in common. */
export interface ProbeTarget {
  readonly http: RecordingHttpClient;
  readonly clientInfo: JsonObject;
  readonly deadline: Deadline;
  /** The timeout of one request. */
  readonly requestTimeoutMs: number;
}

/** The same in a session. */
export interface SessionTarget extends ProbeTarget {
  /** Of a message in the session: its id, if it has one, and the revision. */
  readonly headers: Readonly<Record<string, string>>;
}

/** How long a stream may stay open after its reply. */
const LINGER_MS = 500;

/**
 * Sends a JSON-RPC request in one POST and reads the response up to its reply.
 * @throws UpstreamFailure if there is no response in time
 */
export async function ask(
  { http, deadline, requestTimeoutMs }: ProbeTarget,
  { id, method, params, headers }: ProbeRequest,
): Promise<ProbeResponse> {
  const request = postOf({ id, method, params }, headers);
  try {
    const { head, messages, eventIds } = await deadline.within(requestTimeoutMs, (signal) => {
      return readUntil(http, request, isReplyTo(id), LINGER_MS, signal).done;
    });
    const [reply = null] = messages.flatMap((message) => replyIn(message, id) ?? []);
    const { status, mediaType } = head;
    return { status, mediaType, sessionId: sessionIdIn(head), eventIds, reply };
  } catch (error) {
    const { httpStatus } = asUpstreamFailure(error, false).details;
    if (httpStatus === undefined) throw error;
    return { status: httpStatus, mediaType: '', sessionId: null, eventIds: [], reply: null };
  }
}

/**
 * Sends a request and reads the response until a message that is wanted.
 * @param lingerMs how long the response may go on after that, in ms
 */
export function readUntil(
  http: HttpClient,
  request: HttpRequest,
  isWanted: (message: JsonValue) => boolean,
  lingerMs: number,
  signal: AbortSignal,
): MessageReader {
  const reader = new MessageReader(isWanted, () => exchange.endWithin(lingerMs));
  const exchange = http.send(request, reader);
  signal.addEventListener('abort', () => exchange.fail(asUpstreamFailure(signal.reason, true)));
  return reader;
}

/** Finds the reply to a request in a message or, as in 2025-03-26, in a batch. */
function replyIn(value: JsonValue, id: number): JsonRpcReply | null {
  for (const element of Array.isArray(value) ? value : [value]) {
    const message = readMessage(element);
    if (message.type === 'response' && message.id === id) return message.reply;
  }
  return null;
}

/** Tells of a message whether it has the reply to a request. */
export function isReplyTo(id: number): (message: JsonValue) => boolean {
  return (message) => replyIn(message, id) !== null;
}

export interface RecordedResponse {
  readonly method: HttpRequest['method'];
  readonly status: number;
  readonly mediaType: string;
  /** The session id in the response. It is a credential: it is sent to the server only. */
  readonly sessionId: string | null;
  /** How far the clock of the server is ahead by its `Date`, in ms; `null` without one. */
  readonly aheadMs: number | null;
}

export class RecordingHttpClient extends HttpClient {
  readonly #recorded: RecordedResponse[];

  constructor(options: HttpClientOptions, clock: Clock) {
    const recorded: RecordedResponse[] = [];
    super(
      {
        ...options,
        onHead: (method, head) =>
          recorded.push({
            method,
            ...head,
            sessionId: sessionIdIn(head),
            aheadMs: aheadIn(head, clock.now()),
          }),
      },
      clock,
    );
    this.#recorded = recorded;
  }

  /** Finds the first response to a request with this method. */
  first(method: HttpRequest['method']): RecordedResponse | null {
    return this.#recorded.find((one) => one.method === method) ?? null;
  }

  /** Finds the last response to a request with this method. */
  last(method: HttpRequest['method']): RecordedResponse | null {
    return this.#recorded.findLast((one) => one.method === method) ?? null;
  }

  /** How far the clock of the server was ahead at its first response, in ms; `null` if it told no time. */
  get aheadMs(): number | null {
    return this.#recorded[0]?.aheadMs ?? null;
  }

  /** The first session id that the server issued. */
  get sessionId(): string | null {
    return this.#recorded.find(({ sessionId }) => sessionId !== null)?.sessionId ?? null;
  }
}

/** Reads how far the clock of the server is ahead. `Date` has whole seconds (RFC 9110, section 5.6.7): on average half of one is cut off. */
function aheadIn({ headers }: ResponseHead, nowMs: number): number | null {
  const serverMs = Date.parse(String(headers.date));
  return Number.isNaN(serverMs) ? null : serverMs + 500 - nowMs;
}

/** Reads the session id of a response. */
function sessionIdIn({ headers }: ResponseHead): string | null {
  const value = headers['mcp-session-id'];
  return typeof value === 'string' && value !== '' ? value : null;
}

/** How long a timer can take that starts after the deadline: the session is still ended then. */
export const CLOSING_MS = 2_500;

/** The deadline of a probe: a clock whose timers fire no later than that, except those of the end of the session. */
export class Deadline implements Clock {
  readonly #clock: Clock;
  readonly #pending = new Set<() => void>();
  #atMs: number;

  /** @param afterMs how long the whole probe can take, in ms from now */
  constructor(clock: Clock, afterMs: number) {
    this.#clock = clock;
    this.#atMs = clock.now() + afterMs;
  }

  get passed(): boolean {
    return this.now() >= this.#atMs;
  }

  now(): number {
    return this.#clock.now();
  }

  elapsed(): number {
    return this.#clock.elapsed();
  }

  setTimer(afterMs: number, callback: () => void): Timer {
    const fire = () => {
      cancel();
      callback();
    };
    const leftMs = this.passed ? CLOSING_MS : this.#atMs - this.now();
    const timer = this.#clock.setTimer(Math.min(afterMs, leftMs), fire);
    const cancel = () => {
      timer.cancel();
      this.#pending.delete(fire);
    };
    this.#pending.add(fire);
    return { cancel };
  }

  /** Runs the work with a signal that aborts after `afterMs`, or at the deadline. */
  async within<Result>(
    afterMs: number,
    work: (signal: AbortSignal) => Promise<Result>,
  ): Promise<Result> {
    const abort = new AbortController();
    const timer = this.setTimer(afterMs, () => abort.abort());
    try {
      return await work(abort.signal);
    } finally {
      timer.cancel();
    }
  }

  /** Ends the deadline now: all pending timers fire. */
  expire(): void {
    this.#atMs = Math.min(this.#atMs, this.now());
    for (const fire of [...this.#pending]) fire();
  }
}
