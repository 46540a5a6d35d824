/** What a route knows of the lists of its server: it forwards requests that ask nothing, and caches what comes back. */
import type { Closed } from '../lib/clock.ts';
import { ListCache } from '../catalogue/list-cache.ts';
import { forwardHome, RequestForwarder } from '../catalogue/request-forwarder.ts';
import { TaskTools, ToolCatalogue } from '../catalogue/tools.ts';
import type { RouteConfig } from '../config/schema.ts';
import type { Relay } from '../model/relay.ts';
import type { CallReply, EdgeRequest } from '../model/request.ts';
import { isJsonObject, type JsonValue } from '../protocol/json.ts';
import type { SharedServices } from './shared-services.ts';
import { peerOf, type RouteServer } from './route-server.ts';

const CATALOGUE_TTL_MS = 60_000;
/** The number of callers whose lists and discovery results are cached. */
export const MAX_CACHED_CALLERS = 1_000;
const MAX_LIST_PAGES = 50;
const MAX_LIST_ITEMS = 5_000;

export interface RouteCatalogue {
  /** Serves a request that asks nothing in this process. Never rejects. */
  readonly forward: (request: EdgeRequest, closed: Closed) => Promise<CallReply>;
  readonly lists: ListCache;
  readonly tools: ToolCatalogue;
  readonly taskTools: TaskTools;
  /** Drops what is cached. @param method by which the server says that it changed */
  readonly changed: (method: string) => void;
}

/** Creates the catalogue of a route. @param relay `null` if replicas do not reach each other */
export function createCatalogue(
  config: RouteConfig,
  { pool }: RouteServer,
  relay: Relay | null,
  { clock, log, metrics }: SharedServices,
): RouteCatalogue {
  const route = config.id;
  const forwarder = new RequestForwarder({
    route,
    pool,
    peer: peerOf(config),
    clock,
    log,
    maxPages: MAX_LIST_PAGES,
    maxItems: MAX_LIST_ITEMS,
    caching: { ttlMs: config.caching.listTtlMs, cacheScope: config.caching.scope },
    parameterHeaders: config.tools.parameterHeaders,
    schemas: config.tools.schemas,
    onTools: (request, tools) => {
      taskTools.learn(request, tools);
      metrics.learnTools(route, namesOf(tools));
    },
  });
  const forward: RouteCatalogue['forward'] = (request, closed) =>
    forwarder.forward(request, closed);
  const cached = { ttlMs: CATALOGUE_TTL_MS, maxCallers: MAX_CACHED_CALLERS, clock };
  const taskTools = new TaskTools({ list: forward, ...cached });
  const lists = new ListCache({
    forward: (request, closed) =>
      forwardHome({ route, pool, relay, log, forward }, request, closed),
    keepMs: config.caching.listTtlMs,
    maxKept: MAX_CACHED_CALLERS,
    clock,
  });
  const list = (request: EdgeRequest, closed: Closed) => lists.list(request, closed);
  const tools = new ToolCatalogue({ list, ...cached });
  const changed = (method: string) => {
    lists.changed(method);
    // Some servers report the change of a resource many times in a second.
    if (method !== 'notifications/tools/list_changed') return;
    tools.forget();
    taskTools.forget();
  };
  return { forward, lists, tools, taskTools, changed };
}

/** Returns the names of tools that a server lists. */
export function namesOf(tools: readonly JsonValue[]): string[] {
  return tools.flatMap((tool) =>
    isJsonObject(tool) && typeof tool['name'] === 'string' ? [tool['name']] : [],
  );
}
