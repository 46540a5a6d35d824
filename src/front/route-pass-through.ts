/** Connects the pass-through with a route: what goes to its server untranslated, and what is told of that. */
import type { IncomingMessage } from 'node:http';
import type { FastifyInstance } from 'fastify';
import type { PassedRequest, PassThrough } from '../edge/options.ts';
import { NO_SUCH_PATH, refuse } from '../edge/response-writer.ts';
import { readBody, refuseBody, type UnreadBody } from '../edge/request/body.ts';
import { isLoopbackHost, pathOf } from '../lib/http.ts';
import { once } from '../lib/once.ts';
import { limited } from '../model/limited.ts';
import { registerPassThrough } from './passthrough/passthrough.ts';
import type { HttpRoute } from '../routes/route.ts';
import type { PublicServices } from '../routes/shared-services.ts';
import { identification } from './callers.ts';
import { isInitialize, type LegacyFace } from './legacy-face.ts';
import { NO_SESSION } from './legacy/endpoint.ts';
import {
  callerHeadersOf,
  headerRules,
  knownCaller,
  learnMessagePaths,
  otherPathHeaderRules,
  otherPaths,
  receiversOf,
  sealingOf,
} from './other-paths.ts';
import { passesLimits, requestsIn, sendVerdict } from './passed-limits.ts';
import { PassedRights } from './passed-rights.ts';
import { hasBody, readsMetadata } from './passthrough/request.ts';
import { isSealedMessage } from './passthrough/sealed-sessions.ts';

/** Passes nothing through. */
export const NO_PASS_THROUGH: PassThrough = async ({ response }) =>
  refuse(response, 404, NO_SUCH_PATH);

/**
 * Registers the pass-through of a route. The first route over HTTP has the other paths as well.
 * @param httpRoutes the routes of the configuration that have a server over HTTP
 * @param face serves legacy clients while the server speaks 2026-07-28
 * @returns the pass-through, for requests that turn out to be for it, within the limits of the route
 */
export function routePassThrough(
  app: FastifyInstance,
  route: HttpRoute,
  httpRoutes: readonly HttpRoute[],
  face: LegacyFace,
  shared: PublicServices,
): PassThrough {
  const { config, identity, log, openResponses, metrics } = shared;
  const identify = identification(route, shared, route.config.path, false);
  const { config: server, upstream, onOutcome } = route.server.http;
  const { id } = route.config;
  const rights = new PassedRights(route, shared);
  const servesLegacy = config.edge.legacyClients === 'pass-through';
  const tellOfLegacyClient = once(() => log.event('route.legacy_client', { route: id }));
  const passThrough = registerPassThrough(app, {
    upstream: server.url,
    path: route.config.path,
    others: route === httpRoutes[0] ? otherPaths(httpRoutes, config.edge.legacyClients) : [],
    callerHeaders: callerHeadersOf(httpRoutes, config),
    endpointHeaderRules: (raw) => headerRules(route, raw),
    otherPathHeaderRules: (raw, path) => otherPathHeaderRules(httpRoutes, raw, path, shared),
    onLoopback: isLoopbackHost(config.listen.host),
    takesPlace: (request) => takesPlace(id, request, shared),
    serveElsewhere: (request) =>
      ['GET', 'DELETE'].includes(request.raw.method ?? '') && face.isOwn(request)
        ? takesPlace(id, request, shared)
          ? face.other(request)
          : Promise.resolve()
        : null,
    admitsEndpoint: (request) => rights.passesWithoutMessage(request),
    admitsOther: (request) => admitsOther(httpRoutes, request, shared),
    rewriteOf: (request) => rights.rewriteOf(request),
    hostHeader: server.hostHeader,
    challenge: (challenge) => route.resource?.challenge(challenge) ?? challenge,
    onToken: (status, challenge) => route.resource?.answered(status, challenge),
    onEndpoint: (endpoint) => upstream.messagePaths.toldClient(endpoint),
    identify: async (raw) => identify(raw),
    readerOf: (raw) => knownCaller(raw, route, shared),
    untilRefused: (raw, end) => identity.untilRefused(raw, end),
    trustedProxies: config.edge.trustedProxies,
    onOutcome,
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
    sessions: sealingOf(route, httpRoutes, shared),
  });
  return async (request, onRefused) => {
    const { knownKind } = upstream;
    const isForFace = knownKind === 'modern' && servesLegacy && isInitialize(request);
    const isOwn = face.isOwn(request);
    // Its session began with another server: the client begins one with this.
    if (isOwn && knownKind !== null && knownKind !== 'modern') {
      return refuse(request.response, 404, NO_SESSION);
    }
    if (isForFace || isOwn) {
      if (takesPlace(id, request, shared)) await face.post(request);
      return;
    }
    if (!rights.passes(request, isSealedMessage(request.raw.url))) return;
    if (await passesLimits(route, request)) await passThrough(request, onRefused);
  };
}

/** When a caller could have room for another response, in ms. Nobody knows. */
const NO_PLACE_WAIT_MS = 1_000;

/** Takes a place for a response, so that no caller has all connections. @returns false if it is refused */
function takesPlace(
  routeId: string,
  { raw, response, caller, body }: PassedRequest,
  { passedQuota, limited: count }: PublicServices,
): boolean {
  const giveBack = passedQuota.take(caller.principalKey);
  if (giveBack === null) {
    const limit = 'limits.maxConnections';
    count(routeId, limit);
    const [message, ...others] = (body !== null && requestsIn(body)) || [];
    const failure = limited(limit, NO_PLACE_WAIT_MS, true);
    const verdict = { type: 'refused', limit, retryAfterMs: NO_PLACE_WAIT_MS, failure } as const;
    response.setHeader('connection', 'close');
    sendVerdict(message !== undefined && others.length === 0 ? message : {}, response, verdict);
    raw.resume();
    return false;
  }
  if (response.destroyed) giveBack();
  else response.once('close', giveBack);
  return true;
}

/**
 * Decides whether a request for another path is passed through. A POST counts for the route whose endpoint a server could take
 * the path for, and otherwise for all, since the paths are those of one server. If a route has rules, nobody knows what the
 * server does on other paths: only metadata is read there, and messages are posted where the server wants those of HTTP+SSE.
 */
async function admitsOther(
  routes: readonly HttpRoute[],
  request: PassedRequest,
  shared: PublicServices,
): Promise<PassedRequest | null> {
  const { raw, response } = request;
  const { method = '', url = '' } = raw;
  const isClosed = routes.some(({ rights }) => rights !== null);
  if (isClosed && readsMetadata(method, url)) return request;
  const receivers = isClosed ? await receiversOfPost(routes, raw, shared) : [];
  if (isClosed && receivers.length === 0) {
    refuse(response, 404, NO_SUCH_PATH);
    raw.resume();
    return null;
  }
  if (method !== 'POST') return request;
  const ruling = receivers.filter(({ rights }) => rights !== null);
  const form = laxForm(pathOf(url));
  const named = routes.filter(({ server }) => laxForm(server.http.config.url.pathname) === form);
  const limiting = (named.length > 0 ? named : routes).filter(
    ({ admission, calls }) => !admission.isClear || calls.isStopping,
  );
  if (limiting.length + ruling.length === 0 || !hasBody(raw)) return request;
  const body = await new Promise<Buffer | UnreadBody>((resolve) => {
    response.once('close', () => resolve(Buffer.alloc(0)));
    const held = shared.bodyBudget.open(request.caller.principalKey);
    readBody(raw, shared.config.limits.maxBodyBytes, held, resolve);
  });
  if (typeof body === 'string') {
    refuseBody(response, body);
    raw.resume();
    return null;
  }
  const read = { ...request, body };
  for (const route of ruling) if (!new PassedRights(route, shared).passes(read, true)) return null;
  if (isForm(raw) && requestsIn(body) === null) return read;
  for (const route of limiting) if (!(await passesLimits(route, read))) return null;
  return read;
}

async function receiversOfPost(
  routes: readonly HttpRoute[],
  raw: IncomingMessage,
  shared: PublicServices,
): Promise<readonly HttpRoute[]> {
  if (raw.method !== 'POST') return [];
  await Promise.all(routes.map((route) => learnMessagePaths(raw, route, shared)));
  return receiversOf(routes, pathOf(raw.url));
}

/** Returns a path as lax servers compare it. It was checked before: it can be decoded. */
function laxForm(path: string): string {
  return decodeURIComponent(path).toLowerCase().replaceAll(/\/+/g, '/').replace(/\/$/, '');
}

/** Tells whether a body is a form, such as that of an OAuth token endpoint, and no message in a coding of its own. */
function isForm({ headers }: IncomingMessage): boolean {
  const type = headers['content-type'] ?? '';
  return (
    headers['content-encoding'] === undefined &&
    /^\s*(?:application\/x-www-form-urlencoded|multipart\/)/i.test(type)
  );
}
