/**
 * Forwards requests that can ask nothing, the list methods and completion, where their caller has its home. Collects all pages
 * of a list, since a legacy cursor does not outlive its session and modern clients have none.
 */
import type { Clock, Closed } from '../lib/clock.ts';
import type { Log } from '../ops/log.ts';
import { mcpOperation, withContext, type Attributes, loggedTarget } from '../ops/tracing.ts';
import { completeResult, type CacheFields } from '../protocol/translate/edge-result.ts';
import { edgeError } from '../protocol/translate/error-map.ts';
import { objectMember, without, type JsonObject, type JsonValue } from '../protocol/json.ts';
import type { JsonRpcReply } from '../protocol/json-rpc.ts';
import { isAtLeast } from '../protocol/meta.ts';
import { upstreamParams } from '../protocol/translate/cleaning.ts';
import type { Session } from '../upstream/session/session.ts';
import type { SessionPool } from '../sessions/session-pool.ts';
import { asUpstreamFailure, ClientLeft } from '../model/upstream-failure.ts';
import { requestFailure, CALL_CANCELLED } from '../model/failures.ts';
import {
  traceOf,
  type CallReply,
  type EdgeRequest,
  waiterWithoutNotifications,
} from '../model/request.ts';
import { sessionOwnerOf } from '../sessions/session-owner.ts';
import { failureOfRequest } from '../model/upstream-failures.ts';
import { DirectoryUnavailable } from '../model/store.ts';
import { logRelayFailure, type Relay } from '../model/relay.ts';

export interface RequestForwarderOptions {
  readonly route: string;
  readonly pool: SessionPool;
  /** What the spans of upstream requests say of the server. */
  readonly peer: Attributes;
  readonly clock: Clock;
  readonly log: Log;
  readonly maxPages: number;
  readonly maxItems: number;
  /** The cache fields of list results. */
  readonly caching: CacheFields;
  readonly parameterHeaders: 'strip' | 'validate';
  readonly schemas: 'as-is' | 'compatible';
  /** Called with each list of tools, as the server sent it. */
  readonly onTools: (request: EdgeRequest, tools: readonly JsonValue[]) => void;
}

/** The member of each list result that holds its items. */
const ITEMS: Readonly<Record<string, string>> = {
  'tools/list': 'tools',
  'prompts/list': 'prompts',
  'resources/list': 'resources',
  'resources/templates/list': 'resourceTemplates',
};

const UNKNOWN_CURSOR = 'Unknown cursor: lists have one page; list again without a cursor';

export class RequestForwarder {
  readonly #options: RequestForwarderOptions;

  constructor(options: RequestForwarderOptions) {
    this.#options = options;
  }

  /** Sends the request upstream and returns the reply. Never throws because of the upstream. */
  async forward(request: EdgeRequest, closed: Closed): Promise<CallReply> {
    const items = ITEMS[request.method];
    if (items !== undefined && request.params['cursor'] !== undefined) {
      // Every list is returned whole, so the gateway never gave out a cursor.
      return { kind: 'failed', failure: requestFailure('unknown_cursor', UNKNOWN_CURSOR) };
    }
    try {
      return await this.#withFreshSession(request, (session) =>
        items === undefined
          ? this.#single(session, request, closed)
          : this.#gather(session, request, items, closed),
      );
    } catch (error) {
      if (error instanceof ClientLeft) return { kind: 'failed', failure: CALL_CANCELLED };
      const failure = asUpstreamFailure(error, true);
      this.#options.log.event('upstream.failed', {
        route: this.#options.route,
        call: null,
        ...traceOf(request),
        method: request.method,
        code: failure.code,
        problem: failure.message,
      });
      return { kind: 'failed', failure: failureOfRequest(failure) };
    }
  }

  /** Repeats the request in a new session if the session expired. The requests here have no effects. */
  async #withFreshSession(
    request: EdgeRequest,
    send: (session: Session) => Promise<CallReply>,
  ): Promise<CallReply> {
    const owner = sessionOwnerOf(request);
    const sendOnce = async () => {
      const { session, giveBack } = await this.#options.pool.borrow(owner);
      return send(session).finally(giveBack);
    };
    return sendOnce().catch((error: unknown) => {
      if (asUpstreamFailure(error, true).code !== 'session_gone') throw error;
      return sendOnce();
    });
  }

  async #single(session: Session, request: EdgeRequest, closed: Closed): Promise<CallReply> {
    return this.#reply(request.method, await this.#send(session, request, {}, closed), session);
  }

  /** Collects all pages of a list. An empty cursor is a cursor; `null` is none (pagination). */
  async #gather(
    session: Session,
    request: EdgeRequest,
    member: string,
    closed: Closed,
  ): Promise<CallReply> {
    const { maxPages, maxItems } = this.#options;
    let items: JsonValue[] = [];
    let cursor: JsonValue | undefined;
    for (let page = 0; page < maxPages; page += 1) {
      const more: JsonObject = cursor === undefined ? {} : { cursor };
      const reply = await this.#send(session, request, more, closed);
      if ('error' in reply) return this.#reply(request.method, reply, session);
      const found = reply.result[member];
      if (Array.isArray(found)) items = items.concat(found);
      cursor = reply.result['nextCursor'];
      if (items.length > maxItems) break;
      if (typeof cursor !== 'string') {
        if (member === 'tools') this.#options.onTools(request, items);
        const { nextCursor: _last, ...rest } = reply.result;
        return this.#reply(request.method, { result: { ...rest, [member]: items } }, session);
      }
    }
    const problem = `The server lists more than ${maxItems} items or ${maxPages} pages`;
    return { kind: 'failed', failure: requestFailure('list_too_long', problem) };
  }

  #reply(method: string, reply: JsonRpcReply, session: Session): CallReply {
    if ('error' in reply) return { kind: 'failed', failure: edgeError(method, reply.error) };
    const { caching, parameterHeaders, schemas } = this.#options;
    const serverInfo = objectMember(session.initializeResult.raw, 'serverInfo') ?? null;
    const context = { serverInfo, caching, parameterHeaders, schemas };
    return { kind: 'result', result: completeResult(method, reply.result, context) };
  }

  async #send(
    session: Session,
    request: EdgeRequest,
    more: JsonObject,
    closed: Closed,
  ): Promise<JsonRpcReply> {
    const { route, clock, log } = this.#options;
    const { method, params, caller } = request;
    const { protocolVersion } = session.initializeResult;
    const span = request.span?.child(
      mcpOperation('client', method, loggedTarget(method, params), {
        ...this.#options.peer,
        'mcp.protocol.version': protocolVersion,
      }),
    );
    const forwardedMeta = withContext(request.forwardedMeta, span);
    const all = upstreamParams(params, { progressToken: null, forwardedMeta });
    // Completion has a context since 2025-06-18; an older server does not know the member.
    const hasContext = method !== 'completion/complete' || isAtLeast(protocolVersion, '2025-06-18');
    const sent = hasContext ? all : without(all, ['context']);
    const headers = withContext(caller.headers, span);
    const startedAtMs = clock.elapsed();
    let errorType: string | null = '_OTHER';
    try {
      const reply = await session.request(method, { ...sent, ...more }, headers, closed);
      errorType = 'error' in reply ? String(reply.error.code) : null;
      return reply;
    } finally {
      span?.end(errorType);
      const ms = Math.round(clock.elapsed() - startedAtMs);
      log.event('upstream.replied', { route, method, errorType, ms, ...traceOf(request) });
    }
  }
}

export interface ForwardHomeOptions {
  readonly route: string;
  readonly pool: SessionPool;
  /** `null` if replicas do not reach each other. */
  readonly relay: Relay | null;
  readonly log: Log;
  /** Serves a request in this process. Never rejects. */
  readonly forward: (request: EdgeRequest, closed: Closed) => Promise<CallReply>;
}

/**
 * Serves a request where its caller has its home, in one hop: what a server lists can depend on what it keeps in that session.
 * Since it has no effects, another session serves it if that replica does not respond. Never rejects because of the upstream or
 * another replica.
 */
export async function forwardHome(
  { route, pool, relay, log, forward }: ForwardHomeOptions,
  request: EdgeRequest,
  closed: Closed,
): Promise<CallReply> {
  const holder =
    relay === null ? null : await pool.holderOf(sessionOwnerOf(request))?.catch(ifAway);
  if (relay === null || holder === null || holder === undefined) return forward(request, closed);
  const outcome = await relay.relay(holder, request, waiterWithoutNotifications(closed));
  if (outcome.type === 'replied') return outcome.reply;
  logRelayFailure(log, { route, call: null, request, owner: holder }, outcome);
  return closed.aborted ? { kind: 'failed', failure: CALL_CANCELLED } : forward(request, closed);
}

/** While the store is unreachable, any session serves a list. */
function ifAway(error: unknown): null {
  if (error instanceof DirectoryUnavailable) return null;
  throw error;
}
