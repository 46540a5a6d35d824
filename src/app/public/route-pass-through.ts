/** Connects the pass-through with a route: what goes to its server untranslated, and what is told of that. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { NO_SUCH_PATH, refuse, sendRefusal } from '../../edge/response-writer.ts';
import { once } from '../../lib/once.ts';
import { STOPPING, STOPPING_WAIT_MS } from '../../model/failures.ts';
import { secondsOf, statusOfLimit } from '../../model/limited.ts';
import type { Caller } from '../../model/request.ts';
import type { Metrics } from '../../ops/metrics.ts';
import {
  registerNoPassThrough,
  registerPassThrough,
  type PassThrough,
} from '../../passthrough/passthrough.ts';
import { clientRequestId } from '../../protocol/ids.ts';
import { isJsonObject, parseJson, type JsonObject, type JsonValue } from '../../protocol/json.ts';
import { isHttpRoute, type HttpRoute, type Route } from '../routes/route.ts';
import type { PublicServices } from '../shared-services.ts';
import type { RouteCallers } from './callers.ts';
import { knownCaller, otherPathHeaderRules, otherPaths, sessionsOf } from './other-paths.ts';

/** Passes nothing through. */
export const NO_PASS_THROUGH: PassThrough = {
  forward: async (_request, reply) => refuse(reply.hijack().raw, 404, NO_SUCH_PATH),
};

/**
 * Registers the pass-through of a route. The first route over HTTP has the other paths as well.
 * @param scope of the route; the pass-through streams bodies
 * @param httpRoutes the routes of the configuration that have a server over HTTP
 * @returns the pass-through, for requests that turn out to be for it, within the limits of the route
 */
export function routePassThrough(
  scope: FastifyInstance,
  route: Route,
  httpRoutes: readonly HttpRoute[],
  callers: RouteCallers,
  shared: PublicServices,
  metrics: Metrics,
): PassThrough {
  if (!isHttpRoute(route)) return registerNoPassThrough(scope, route.config.path);
  const { config, log, openResponses } = shared;
  const { config: server, upstream, circuit } = route.server.http;
  const { id } = route.config;
  const tellOfLegacyClient = once(() => log.event('route.legacy_client', { route: id }));
  const passThrough = registerPassThrough(scope, {
    upstream: server.url,
    path: route.config.path,
    others: route === httpRoutes[0] ? otherPaths(httpRoutes, config.edge.legacyClients) : [],
    headers: server.headers,
    authorization: server.authorization,
    headersOf: ({ raw }) => ({ ...route.tokenExchange?.headersOf(raw) }),
    otherPathHeaderRules: (request, path) =>
      otherPathHeaderRules(httpRoutes, request, path, shared),
    hostHeader: server.hostHeader,
    challenge: (challenge) => route.resource?.challenge(challenge) ?? challenge,
    onToken: (status, challenge) => route.resource?.answered(status, challenge),
    onEndpoint: (endpoint) => upstream.messagePaths.toldClient(endpoint),
    refusalOf: ({ raw }) => callers.refusalOf(raw),
    onOutcome: circuit.ended,
    connectTimeoutMs: server.connectTimeoutMs,
    headersTimeoutMs: server.headersTimeoutMs,
    maxBodyBytes: config.limits.maxBodyBytes,
    openResponses,
    onPassed: (isEndpoint) => {
      metrics.passed.inc({ route: id });
      if (isEndpoint && upstream.knownKind !== 'modern') tellOfLegacyClient();
    },
    onFailure: ({ httpStatus: status, problem }) => {
      if (upstream.knownKind === 'modern') upstream.doubt();
      log.event('passthrough.failed', { route: id, status, problem });
    },
    ...sessionsOf(route, httpRoutes, shared),
  });
  return withinLimits(passThrough, route, shared);
}

/** Limits what is passed through to the endpoint of a server. */
function withinLimits(
  passThrough: PassThrough,
  route: HttpRoute,
  shared: PublicServices,
): PassThrough {
  return {
    forward: async (request, reply, onServerRefused) => {
      const caller = () => knownCaller(request, route, shared);
      if (await passesLimits(route, request, reply, caller)) {
        await passThrough.forward(request, reply, onServerRefused);
      }
    },
  };
}

/**
 * Decides whether a message is passed through. What continues something is: a response, a notification, a retry, and what
 * concerns a task.
 * @returns false if it is not, and has its response
 */
async function passesLimits(
  { admission, calls }: Route,
  { body }: FastifyRequest,
  reply: FastifyReply,
  caller: () => Caller,
): Promise<boolean> {
  if ((admission.isClear && !calls.isStopping) || !(body instanceof Buffer)) return true;
  const request = requestIn(body);
  if (request === null) return true;
  const { method, params, id } = request;
  const isTool = method === 'tools/call' && isJsonObject(params);
  const isRetry = isJsonObject(params) && params['requestState'] !== undefined;
  const isRefused = calls.isStopping && !isRetry;
  const verdict = isRefused
    ? STOPPING_VERDICT
    : await admission.admit({
        principalKey: caller().principalKey,
        tool: isTool ? String(params['name']) : null,
        isCall: true,
        isRetry,
      });
  if (verdict.type === 'admitted') {
    if (reply.raw.destroyed) verdict.done?.();
    else if (verdict.done !== null) reply.raw.once('close', verdict.done);
    return true;
  }
  const { retryAfterMs, failure } = verdict;
  const httpStatus = verdict.type === 'stopping' ? 503 : statusOfLimit(verdict.limit);
  const isId = typeof id === 'string' || typeof id === 'number';
  const refusal = { httpStatus, id: isId ? clientRequestId(id) : null, error: failure.error };
  const headers = { 'retry-after': String(secondsOf(retryAfterMs)) };
  sendRefusal(reply.hijack().raw, refusal, headers);
  return false;
}

const STOPPING_VERDICT = {
  type: 'stopping',
  retryAfterMs: STOPPING_WAIT_MS,
  failure: STOPPING,
} as const;

/** Finds the request in a body, or the first one of a batch. @returns `null` if there is none that limits concern */
function requestIn(body: Buffer): JsonObject | null {
  let read: JsonValue;
  try {
    read = parseJson(body.toString('utf8'));
  } catch {
    return null;
  }
  const isRequest = (message: JsonValue): message is JsonObject =>
    isJsonObject(message) &&
    typeof message['method'] === 'string' &&
    message['id'] !== undefined &&
    !/^(?:tasks\/|server\/discover$)/.test(message['method']);
  return (Array.isArray(read) ? read : [read]).find(isRequest) ?? null;
}
