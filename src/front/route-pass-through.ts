/** Connects the pass-through with a route: what goes to its server untranslated, and what is told of that. */
import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { NO_SUCH_PATH, refuse, sendRefusal } from '../edge/response-writer.ts';
import {
  readBody,
  readJsonBody,
  refuseBody,
  UNIDENTIFIED,
  type UnreadBody,
} from '../edge/request/body.ts';
import { hasClaim } from '../edge/request/modern-request.ts';
import { isLoopbackHost, pathOf } from '../lib/http.ts';
import { once } from '../lib/once.ts';
import type { AdmissionVerdict } from '../limits/admission.ts';
import { STOPPING, STOPPING_WAIT_MS } from '../model/failures.ts';
import { limited, secondsOf, statusOfLimit } from '../model/limited.ts';
import {
  registerNoPassThrough,
  registerPassThrough,
  type PassThrough,
} from './passthrough/passthrough.ts';
import { clientRequestId } from '../protocol/ids.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../protocol/json.ts';
import { isHttpRoute, type HttpRoute, type Route } from '../routes/route.ts';
import type { PublicServices } from '../routes/shared-services.ts';
import { callersOf } from './callers.ts';
import {
  callerHeadersOf,
  headerRules,
  knownCaller,
  otherPathHeaderRules,
  otherPaths,
  sealingOf,
} from './other-paths.ts';

/** Passes nothing through. */
export const NO_PASS_THROUGH: PassThrough = async (_request, reply) =>
  refuse(reply.hijack().raw, 404, NO_SUCH_PATH);

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
  shared: PublicServices,
): PassThrough {
  if (!isHttpRoute(route)) return registerNoPassThrough(scope, route.config.path);
  const { config, identity, log, openResponses, metrics } = shared;
  const callers = callersOf(route, shared);
  const { config: server, upstream, onOutcome } = route.server.http;
  const { id } = route.config;
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
    admitsOther: (request, reply) => admitsOther(httpRoutes, request, reply, shared),
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
 * Decides whether a POST to another path is passed through. It counts for the route whose endpoint a server could take the path
 * for, and otherwise for all, since the paths are those of one server.
 */
async function admitsOther(
  routes: readonly HttpRoute[],
  request: FastifyRequest,
  reply: FastifyReply,
  shared: PublicServices,
): Promise<boolean> {
  const { maxBodyBytes } = shared.config.limits;
  const form = laxForm(pathOf(request.raw.url));
  const named = routes.filter(({ server }) => laxForm(server.http.config.url.pathname) === form);
  const limiting = (named.length > 0 ? named : routes).filter(
    ({ admission, calls }) => !admission.isClear || calls.isStopping,
  );
  if (limiting.length === 0 || !(request.body instanceof Readable)) return true;
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
  if (isForm(request) && requestsIn(body) === null) return true;
  for (const route of limiting) {
    if (!(await passesLimits(route, request, reply, shared))) return false;
  }
  return true;
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

/**
 * Decides whether a message is passed through: all requests of a batch, or none. What continues something is: a response, a
 * notification, and what concerns a task.
 * @returns false if it is not, and has its response
 */
async function passesLimits(
  route: HttpRoute,
  request: FastifyRequest,
  reply: FastifyReply,
  shared: PublicServices,
): Promise<boolean> {
  const { body } = request;
  const { admission, calls } = route;
  if ((admission.isClear && !calls.isStopping) || !(body instanceof Buffer)) return true;
  const read = requestsIn(body);
  if (admission.limitsTools && !read?.every(namesTool)) {
    refuse(reply.hijack().raw, 415, UNREADABLE);
    return false;
  }
  const { principalKey } = knownCaller(request, route, shared);
  // It can be a request.
  const messages = read ?? [{}];
  const places: (() => void)[] = [];
  const giveBack = () => {
    for (const done of places) done();
  };
  for (const [index, message] of messages.entries()) {
    const hasMore = index < messages.length - 1;
    const verdict = await verdictOf(route, message, hasMore, principalKey);
    if (verdict.type !== 'admitted') {
      giveBack();
      sendVerdict(message, reply, verdict);
      return false;
    }
    if (verdict.done !== null) places.push(verdict.done);
  }
  if (reply.raw.destroyed) giveBack();
  else if (places.length > 0) reply.raw.once('close', giveBack);
  return true;
}

/**
 * Only a modern server knows whether it issued a `requestState`. With one that is made up no limit must be evaded, but a process
 * that stops can let it through: it soon lets nothing through.
 */
function verdictOf(
  { admission, calls }: Route,
  request: JsonObject,
  hasMore: boolean,
  principalKey: string,
) {
  const { method, params } = request;
  const name = method === 'tools/call' && isJsonObject(params) ? params['name'] : null;
  if (calls.isStopping && !mayBeRetry(request)) return STOPPING_VERDICT;
  return admission.admit({
    principalKey,
    tool: typeof name === 'string' ? name : null,
    isCall: true,
    isRetry: false,
    hasMore,
  });
}

/** False for a call of a tool whose name a lax server could still make a string of. */
function namesTool({ method, params }: JsonObject): boolean {
  return method !== 'tools/call' || !isJsonObject(params) || typeof params['name'] === 'string';
}

/** A legacy request is never a retry, whatever is in its parameters. */
function mayBeRetry(request: JsonObject): boolean {
  const { params } = request;
  return hasClaim(request) && isJsonObject(params) && params['requestState'] !== undefined;
}

function sendVerdict(
  { id }: JsonObject,
  reply: FastifyReply,
  verdict: Exclude<AdmissionVerdict, { readonly type: 'admitted' }> | typeof STOPPING_VERDICT,
): void {
  const { retryAfterMs, failure } = verdict;
  const httpStatus = verdict.type === 'stopping' ? 503 : statusOfLimit(verdict.limit);
  const isId = typeof id === 'string' || typeof id === 'number';
  const refusal = {
    ...{ httpStatus, id: isId ? clientRequestId(id) : null, error: failure.error },
    mayHaveActed: 'no',
  } as const;
  const headers = { 'retry-after': String(secondsOf(retryAfterMs)) };
  sendRefusal(reply.hijack().raw, refusal, headers);
}

const STOPPING_VERDICT = {
  type: 'stopping',
  retryAfterMs: STOPPING_WAIT_MS,
  failure: STOPPING,
} as const;

const UNREADABLE =
  'The gateway limits calls by tool, and cannot read the name of the tool: expected JSON in UTF-8, not compressed, and a name that is a string';

/**
 * Finds the requests in a body that limits concern.
 * @returns `null` if only the server could read it, such as a compressed body, or could read it in another way
 */
function requestsIn(body: Buffer): readonly JsonObject[] | null {
  const read = readJsonBody(body);
  if (read.type !== 'json') return null;
  const { value } = read;
  const isRequest = (message: JsonValue): message is JsonObject =>
    isJsonObject(message) &&
    typeof message['method'] === 'string' &&
    message['id'] !== undefined &&
    !/^(?:tasks\/|server\/discover$)/.test(message['method']);
  return (Array.isArray(value) ? value : [value]).filter(isRequest);
}
