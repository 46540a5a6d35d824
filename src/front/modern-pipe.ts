/**
 * Modern clients in front of a server over stdio that speaks 2026-07-28 only. Nothing is translated: each request goes to the process
 * of its caller as it came, and what that says goes back as it is. What HTTP adds (headers, limits, rights, tokens) is checked here.
 */
import { ToolCatalogue } from '../catalogue/tools.ts';
import { parameterHeaderProblem } from '../edge/request/parameter-headers.ts';
import type { EdgeRoute } from '../edge/options.ts';
import { inBackground } from '../lib/background.ts';
import { Closing, type Closed } from '../lib/clock.ts';
import {
  OVERLOADED,
  requestFailure,
  STOPPING,
  STOPPING_FOR_REQUEST,
  STOPPING_FOR_RETRY,
} from '../model/failures.ts';
import {
  waiterWithoutNotifications,
  type CallReply,
  type EdgeRequest,
  type Failure,
  type Waiter,
} from '../model/request.ts';
import { objectMember, type JsonObject, type JsonValue } from '../protocol/json.ts';
import type { ClientRequestId } from '../protocol/ids.ts';
import { Meta, MODERN_REVISION } from '../protocol/meta.ts';
import { legacyCapabilities } from '../protocol/translate/client-profile.ts';
import { annotatedParameters } from '../protocol/translate/header-annotations.ts';
import { DISCOVER_FIRST_WAIT_MS, type Route } from '../routes/route.ts';
import { namesOf } from '../routes/route-catalogue.ts';
import { peerOf } from '../routes/route-server.ts';
import type { PublicServices } from '../routes/shared-services.ts';
import { exchange, within } from './modern-exchange.ts';

const CATALOGUE = { ttlMs: 60_000, maxCallers: 1_000 };
const MAX_LIST_PAGES = 50;

/** What serves the requests of modern clients: the bridge to a legacy server, or a pipe. */
export type ModernServices = Pick<EdgeRoute, 'discover' | 'forward' | 'call' | 'task'> & {
  readonly listen: (
    request: EdgeRequest,
    id: ClientRequestId,
    waiter: Parameters<EdgeRoute['listen']>[2],
    untilRefused: (end: () => void) => () => void,
  ) => Promise<CallReply>;
};
type ModernPipe = ModernServices & Pick<EdgeRoute, 'parameterHeaders'>;

/**
 * Creates what serves the requests of modern clients of a route over stdio, once its server is known to be modern. Limits on
 * requests, and rights, are checked before.
 */
export function modernPipe(route: Route, shared: PublicServices): ModernPipe | null {
  const { processes } = route.server;
  if (processes === null) return null;
  const { clock, log, capacity, listenerQuota, metrics } = shared;
  const { id: routeId, calls, upstream: settings } = route.config;
  const peer = peerOf(route.config);
  const send = (request: EdgeRequest, waiter: Waiter, timeoutMs: number | null, isCall = false) => {
    const server = processes.serverOf(request.caller);
    return exchange(
      { route: routeId, server, peer, clock, log, timeoutMs, isCall },
      request,
      waiter,
    );
  };
  const ask = async (request: EdgeRequest, closed?: Closed): Promise<CallReply> => {
    const reply = await send(
      request,
      waiterWithoutNotifications(closed),
      settings.headersTimeoutMs,
    );
    if (request.method !== 'tools/list' || reply.kind !== 'result') return reply;
    metrics.learnTools(routeId, namesOf(toolsIn(reply.result)));
    return reply;
  };
  const tools = new ToolCatalogue({
    list: (request) => allTools(ask, request),
    clock,
    ...CATALOGUE,
  });
  const problemWith = async (request: EdgeRequest, rawHeaders: readonly string[]) => {
    const schema = objectMember((await tools.toolOf(request)) ?? {}, 'inputSchema') ?? {};
    const args = objectMember(request.params, 'arguments') ?? {};
    return parameterHeaderProblem(annotatedParameters(schema) ?? [], args, rawHeaders);
  };
  return {
    discover: (request) => {
      const reply = ask(request);
      const known = processes.discovered;
      return known === null ? reply : within(clock, DISCOVER_FIRST_WAIT_MS, reply, known);
    },
    forward: ask,
    task: (request, { closed }) => ask(request, closed),
    // No process reads headers, so that what intermediaries read is checked here ("Server Behavior for Custom Headers").
    parameterHeaders: async (request, rawHeaders) => {
      const problem = await problemWith(request, rawHeaders);
      if (problem === null) return null;
      // The tool may have changed since.
      tools.forget();
      return problemWith(request, rawHeaders);
    },
    call: async (request, waiter) => {
      const { principalKey } = request.caller;
      const refused = refusalOf(route, request, capacity.hasRoomToRun(principalKey));
      if (refused !== null) return { kind: 'failed', failure: refused };
      capacity.move('none', 'running', principalKey);
      const reply = send(request, waiter, calls.maxDurationMs, true);
      return reply.finally(() => capacity.move('running', 'none', principalKey));
    },
    listen: async (request, id, waiter, untilRefused) => {
      if (route.calls.isStopping) return { kind: 'failed', failure: STOPPING_FOR_REQUEST };
      const giveBack = listenerQuota.take(request.caller.principalKey);
      if (giveBack === null) return TOO_MANY;
      inBackground(waiter.over.then(giveBack));
      const over = new Closing();
      // It may have left while the server was found out to be modern.
      if (waiter.closed.aborted) over.abort();
      waiter.closed.addEventListener('abort', () => over.abort());
      let isRefused = false;
      // The client listens again with another token.
      const forget = untilRefused(() => {
        isRefused = true;
        over.abort();
      });
      const named: Waiter = {
        closed: over,
        get backlog() {
          return waiter.backlog;
        },
        notify: (method, params) => {
          if (method === 'notifications/tools/list_changed') tools.forget();
          waiter.notify(method, withId(params, id));
        },
      };
      const reply = await send(request, named, null).finally(forget);
      if (isRefused) return { kind: 'result', result: withId(REFUSED, id) };
      return reply.kind === 'result' ? { ...reply, result: withId(reply.result, id) } : reply;
    },
  };
}

/** @returns why no call is begun now; `null` if one is */
function refusalOf(
  { calls }: Route,
  { requestState }: EdgeRequest,
  hasRoom: boolean,
): Failure | null {
  if (calls.isStopping) return requestState === null ? STOPPING : STOPPING_FOR_RETRY;
  return hasRoom ? null : OVERLOADED;
}

const TOO_MANY: CallReply = {
  kind: 'failed',
  failure: requestFailure(
    'too_many_listeners',
    'The gateway is at its limit of listeners; close one and try again',
  ),
};

/** What ends a listener whose caller would be refused now. */
const REFUSED: JsonObject = { resultType: 'complete', _meta: { [Meta.reason]: 'token_not_valid' } };

/** Names a subscription as its client does (subscriptions, "Receiving Notifications"). */
function withId(params: JsonObject, id: ClientRequestId): JsonObject {
  return { ...params, _meta: { ...objectMember(params, '_meta'), [Meta.subscriptionId]: id } };
}

/** Lists all tools that a caller sees, for the gateway itself. */
async function allTools(
  ask: (request: EdgeRequest) => Promise<CallReply>,
  request: EdgeRequest,
): Promise<CallReply> {
  const { profile, clientInfo } = request;
  const _meta: JsonObject = {
    [Meta.protocolVersion]: MODERN_REVISION,
    [Meta.clientCapabilities]: legacyCapabilities(profile, null),
    ...(clientInfo !== null && { [Meta.clientInfo]: clientInfo }),
  };
  let tools: JsonValue[] = [];
  let cursor: JsonObject = {};
  for (let page = 0; page < MAX_LIST_PAGES; page += 1) {
    const reply = await ask({ ...request, params: { ...cursor, _meta } });
    if (reply.kind === 'failed') return reply;
    tools = tools.concat(toolsIn(reply.result));
    const { nextCursor } = reply.result;
    if (typeof nextCursor !== 'string') break;
    cursor = { cursor: nextCursor };
  }
  return { kind: 'result', result: { tools } };
}

function toolsIn(result: JsonObject): readonly JsonValue[] {
  const { tools } = result;
  return Array.isArray(tools) ? tools : [];
}
