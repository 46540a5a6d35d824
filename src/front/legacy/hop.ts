/**
 * The way to a session at another process: the request goes over the relay as one that no client sends. The response comes back in
 * notifications, piece by piece as it is written, and what ends it is in the reply.
 */
import { z } from 'zod';
import { inBackground } from '../../lib/background.ts';
import { Closing } from '../../lib/clock.ts';
import type { Relay, RelayedHandle } from '../../model/relay.ts';
import { requestOfGateway } from '../../model/relay.ts';
import type { CallReply, EdgeRequest, Waiter } from '../../model/request.ts';
import type { JsonObject } from '../../protocol/json.ts';
import type { PointerOwner } from '../../seal/pointer.ts';
import { NO_SESSION, refuse, refuseLost, serveInSession, type LegacyRequest } from './endpoint.ts';
import type { StreamResponse } from './event-stream.ts';
import type { LegacySessions } from './sessions.ts';

/** No method of MCP: a process that does not know it does nothing. */
const METHOD = 'mrtr-gateway/legacy';
const HEAD = 'head';
const DATA = 'data';

const legacyRequest = z.strictObject({
  verb: z.enum(['POST', 'GET', 'DELETE']),
  route: z.string(),
  key: z.string(),
  accept: z.string().nullable(),
  version: z.string().nullable(),
  lastEventId: z.string().nullable(),
  body: z.string(),
  headers: z.record(z.string(), z.string()),
}) satisfies z.ZodType<LegacyRequest>;

const head = z.strictObject({ status: z.int(), headers: z.record(z.string(), z.string()) });
const data = z.strictObject({ text: z.string() });
/** What a response ends with, if that is anything: a response of one JSON object is this. */
const end = z.strictObject({ text: z.exactOptional(z.string()) });

/** Has a request served by the process that has its session. Resolves when the response is over. Never rejects. */
export async function serveElsewhere(
  relay: Relay,
  owner: PointerOwner,
  request: LegacyRequest,
  response: StreamResponse,
): Promise<void> {
  const waiter = new ResponseWaiter(response);
  const outcome = await relay.relay(owner, requestOfGateway(METHOD, { ...request }), waiter);
  if (waiter.hasBegun && outcome.type === 'replied' && outcome.reply.kind === 'result') {
    return response.end(end.parse(outcome.reply.result).text);
  }
  if (waiter.hasBegun || outcome.type === 'left') return response.end();
  const mayHaveBegun =
    outcome.type !== 'replied' && outcome.type !== 'unknown' && outcome.isConfirmed === true;
  // After a 404 a client opens another session, and many make the call in it once more.
  if (mayHaveBegun && request.verb === 'POST') return refuseLost(response);
  switch (outcome.type) {
    case 'replied':
      // A failure: it was too long for the relay.
      return refuse(response, 413, 'The request is too large for the process that has its session');
    case 'unknown':
    case 'gone':
      return refuse(response, 404, NO_SESSION);
    default:
      refuse(
        response,
        503,
        `The process that has this session cannot be reached: ${outcome.problem}`,
      );
  }
}

/** Writes what comes from the other process. */
class ResponseWaiter implements Waiter {
  readonly #response: StreamResponse;
  readonly closed = new Closing();
  hasBegun = false;
  #backlog: PromiseWithResolvers<void> | null = null;

  constructor(response: StreamResponse) {
    this.#response = response;
    response.watch({
      caughtUp: () => this.#caughtUp(),
      closed: () => {
        this.#caughtUp();
        this.closed.abort();
      },
    });
  }

  get backlog(): Promise<void> | null {
    return this.#backlog?.promise ?? null;
  }

  notify(method: string, params: JsonObject): void {
    if (!this.#response.isOpen) return;
    if (method === HEAD) {
      const { status, headers } = head.parse(params);
      this.hasBegun = true;
      this.#response.head(status, headers);
    } else if (!this.#response.write(data.parse(params).text)) {
      this.#backlog ??= Promise.withResolvers();
    }
  }

  #caughtUp(): void {
    this.#backlog?.resolve();
    this.#backlog = null;
  }
}

/** Serves what another process has sent with `serveElsewhere`. @returns `null` if it is none of that, or no session of this process */
export function serveFromElsewhere(
  sessions: LegacySessions,
  { method, params }: EdgeRequest,
  waiter: Waiter,
): RelayedHandle | null {
  if (method !== METHOD) return null;
  const { data: request } = legacyRequest.safeParse(params);
  if (request === undefined || sessions.find(request.key, request.route) === null) return null;
  const response = new RelayedResponse(waiter);
  return {
    begin: () => {
      inBackground(serveInSession(sessions, request, response));
      return response.over;
    },
    sendClientBack: () => {},
  };
}

/** A response whose client is connected to another process. */
class RelayedResponse implements StreamResponse {
  readonly #waiter: Waiter;
  readonly #over = Promise.withResolvers<CallReply>();
  #isOver = false;
  #caughtUp = () => {};

  constructor(waiter: Waiter) {
    this.#waiter = waiter;
  }

  get over(): Promise<CallReply> {
    return this.#over.promise;
  }

  get isOpen(): boolean {
    return !this.#isOver && !this.#waiter.closed.aborted;
  }

  head(status: number, headers: Readonly<Record<string, string>>): void {
    if (this.isOpen) this.#waiter.notify(HEAD, { status, headers });
  }

  write(text: string): boolean {
    if (this.isOpen) this.#waiter.notify(DATA, { text });
    const { backlog } = this.#waiter;
    if (backlog === null) return true;
    inBackground(backlog.then(() => this.#caughtUp()));
    return false;
  }

  end(text?: string): void {
    this.#finish(text === undefined ? {} : { text });
  }

  watch(listener: { caughtUp(): void; closed(): void }): void {
    this.#caughtUp = listener.caughtUp;
    const close = () => {
      if (this.#isOver) return;
      this.#finish({});
      listener.closed();
    };
    if (this.#waiter.closed.aborted) close();
    else this.#waiter.closed.addEventListener('abort', close);
  }

  #finish(result: z.infer<typeof end>): void {
    this.#isOver = true;
    this.#over.resolve({ kind: 'result', result: { ...result } });
  }
}
