/** Connects the pass-through with a route: what goes to its server untranslated, and what is told of that. */
import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { NO_SUCH_PATH, refuse } from '../edge/response-writer.ts';
import { readBody, refuseBody, UNIDENTIFIED, type UnreadBody } from '../edge/request/body.ts';
import { isLoopbackHost, pathOf } from '../lib/http.ts';
import { once } from '../lib/once.ts';
import { limited } from '../model/limited.ts';
import { registerPassThrough, type PassThrough } from './passthrough/passthrough.ts';
import type { HttpRoute } from '../routes/route.ts';
import type { PublicServices } from '../routes/shared-services.ts';
import { callersOf } from './callers.ts';
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
import { readsMetadata } from './passthrough/request.ts';
import { isSealedMessage } from './passthrough/sealed-sessions.ts';

/** Passes nothing through. */
export const NO_PASS_THROUGH: PassThrough = async (_request, reply) =>
  refuse(reply.hijack().raw, 404, NO_SUCH_PATH);

/**
 * Registers the pass-through of a route. The first route over HTTP has the other paths as well.
 * @param scope of the route; the pass-through streams bodies
 * @param httpRoutes the routes of the configuration that have a server over HTTP
 * @param face serves legacy clients while the server speaks 2026-07-28
 * @returns the pass-through, for requests that turn out to be for it, within the limits of the route
 */
export function routePassThrough(
  scope: FastifyInstance,
  route: HttpRoute,
  httpRoutes: readonly HttpRoute[],
  face: LegacyFace,
  shared: PublicServices,
): PassThrough {
  const { config, identity, log, openResponses, metrics } = shared;
  const callers = callersOf(route, shared);
  const { config: server, upstream, onOutcome } = route.server.http;
  const { id } = route.config;
  const rights = new PassedRights(route, shared);
  const servesLegacy = config.edge.legacyClients === 'pass-through';
  const tellOfLegacyClient = once(() => log.event('route.legacy_client', { route: id }));
  const passThrough = registerPassThrough(scope, {
    upstream: server.url,
    path: route.config.path,
    others: route === httpRoutes[0] ? otherPaths(httpRoutes, config.edge.legacyClients) : [],
    callerHeaders: callerHeadersOf(httpRoutes, config),
    endpointHeaderRules: (request) => headerRules(route, request),
    otherPathHeaderRules: (request, path) =>
      otherPathHeaderRules(httpRoutes, request, path, shared),
    onLoopback: isLoopbackHost(config.listen.host),
    takesPlace: (request, reply) => takesPlace(route, request, reply, shared),
    serveElsewhere: (request, reply) =>
      ['GET', 'DELETE'].includes(request.method) && face.isOwn(request)
        ? takesPlace(route, request, reply, shared)
          ? face.other(request, reply)
          : Promise.resolve()
        : null,
    admitsEndpoint: (request, reply) => rights.passesWithoutMessage(request, reply),
    admitsOther: (request, reply) => admitsOther(httpRoutes, request, reply, shared),
    rewriteOf: (request) => rights.rewriteOf(request),
    hostHeader: server.hostHeader,
    challenge: (challenge) => route.resource?.challenge(challenge) ?? challenge,
    onToken: (status, challenge) => route.resource?.answered(status, challenge),
    onEndpoint: (endpoint) => upstream.messagePaths.toldClient(endpoint),
    refusalOf: ({ raw }) => callers.refusalOf(raw),
    untilRefused: ({ raw }, end) => identity.untilRefused(raw, end),
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
  return async (request, reply, onServerRefused) => {
    const { knownKind } = upstream;
    const isForFace = knownKind === 'modern' && servesLegacy && isInitialize(request);
    const isOwn = face.isOwn(request);
    // Its session began with another server: the client begins one with this.
    if (isOwn && knownKind !== null && knownKind !== 'modern') {
      return refuse(reply.hijack().raw, 404, NO_SESSION);
    }
    if (isForFace || isOwn) {
      if (takesPlace(route, request, reply, shared)) await face.post(request, reply);
      return;
    }
    if (!rights.passes(request, reply, isSealedMessage(request.raw.url))) return;
    if (await passesLimits(route, request, reply, shared)) {
      await passThrough(request, reply, onServerRefused);
    }
  };
}

/** When a caller could have room for another response, in ms. Nobody knows. */
const NO_PLACE_WAIT_MS = 1_000;

/** Takes a place for a response, so that no caller has all connections. @returns false if it is refused */
function takesPlace(
  route: HttpRoute,
  request: FastifyRequest,
  reply: FastifyReply,
  shared: PublicServices,
): boolean {
  const { raw } = reply;
  const giveBack = shared.passedQuota.take(knownCaller(request, route, shared).principalKey);
  if (giveBack === null) {
    const limit = 'limits.maxConnections';
    shared.limited(route.config.id, limit);
    const [message, ...others] = (request.body instanceof Buffer && requestsIn(request.body)) || [];
    const failure = limited(limit, NO_PLACE_WAIT_MS, true);
    const verdict = { type: 'refused', limit, retryAfterMs: NO_PLACE_WAIT_MS, failure } as const;
    raw.setHeader('connection', 'close');
    sendVerdict(message !== undefined && others.length === 0 ? message : {}, reply, verdict);
    request.raw.resume();
    return false;
  }
  if (raw.destroyed) giveBack();
  else raw.once('close', giveBack);
  return true;
}

/**
 * Decides whether a request for another path is passed through. A POST counts for the route whose endpoint a server could take
 * the path for, and otherwise for all, since the paths are those of one server. If a route has rules, nobody knows what the
 * server does on other paths: only metadata is read there, and messages are posted where the server wants those of HTTP+SSE.
 */
async function admitsOther(
  routes: readonly HttpRoute[],
  request: FastifyRequest,
  reply: FastifyReply,
  shared: PublicServices,
): Promise<boolean> {
  const target = request.raw.url ?? '';
  const isClosed = routes.some(({ rights }) => rights !== null);
  if (isClosed && readsMetadata(request.method, target)) return true;
  const receivers = isClosed ? await receiversOfPost(routes, request, shared) : [];
  if (isClosed && receivers.length === 0) {
    refuse(reply.hijack().raw, 404, NO_SUCH_PATH);
    request.raw.resume();
    return false;
  }
  if (request.method !== 'POST') return true;
  const ruling = receivers.filter(({ rights }) => rights !== null);
  const { maxBodyBytes } = shared.config.limits;
  const form = laxForm(pathOf(request.raw.url));
  const named = routes.filter(({ server }) => laxForm(server.http.config.url.pathname) === form);
  const limiting = (named.length > 0 ? named : routes).filter(
    ({ admission, calls }) => !admission.isClear || calls.isStopping,
  );
  if (limiting.length + ruling.length === 0 || !(request.body instanceof Readable)) return true;
  const body = await new Promise<Buffer | UnreadBody>((resolve) => {
    reply.raw.once('close', () => resolve(Buffer.alloc(0)));
    readBody(request.raw, maxBodyBytes, shared.bodyBudget.open(UNIDENTIFIED), resolve);
  });
  if (typeof body === 'string') {
    refuseBody(reply.hijack().raw, body);
    request.raw.resume();
    return false;
  }
  request.body = body;
  for (const route of ruling) {
    if (!new PassedRights(route, shared).passes(request, reply, true)) return false;
  }
  if (isForm(request) && requestsIn(body) === null) return true;
  for (const route of limiting) {
    if (!(await passesLimits(route, request, reply, shared))) return false;
  }
  return true;
}

async function receiversOfPost(
  routes: readonly HttpRoute[],
  request: FastifyRequest,
  shared: PublicServices,
): Promise<readonly HttpRoute[]> {
  if (request.method !== 'POST') return [];
  await Promise.all(routes.map((route) => learnMessagePaths(request, route, shared)));
  return receiversOf(routes, pathOf(request.raw.url));
}

/** Returns a path as lax servers compare it. It was checked before: it can be decoded. */
function laxForm(path: string): string {
  return decodeURIComponent(path).toLowerCase().replaceAll(/\/+/g, '/').replace(/\/$/, '');
}

/** Tells whether a body is a form, such as that of an OAuth token endpoint, and no message in a coding of its own. */
function isForm({ headers }: FastifyRequest): boolean {
  const type = headers['content-type'] ?? '';
  return (
    headers['content-encoding'] === undefined &&
    /^\s*(?:application\/x-www-form-urlencoded|multipart\/)/i.test(type)
  );
}
