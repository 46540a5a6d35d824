/**
 * Connects the legacy face with a route: who may use it, in which limits, and at which process. It serves legacy clients in front of
 * a server over stdio, and of one that speaks 2026-07-28 and keeps no sessions.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FastifyInstance, HTTPMethods } from 'fastify';
import { z } from 'zod';
import { inBackground } from '../lib/background.ts';
import { once } from '../lib/once.ts';
import type { PassedRequest, PassThrough } from '../edge/options.ts';
import { startSpan } from '../edge/request-span.ts';
import { refuse as refuseHttp } from '../edge/response-writer.ts';
import { STOPPING, STOPPING_WAIT_MS } from '../model/failures.ts';
import { statusOfLimit } from '../model/limited.ts';
import type { Caller } from '../model/request.ts';
import { originOf } from '../ops/tracing.ts';
import { clientRequestId } from '../protocol/ids.ts';
import {
  isJsonObject,
  objectMember,
  parseJson,
  parseMessage,
  type JsonValue,
} from '../protocol/json.ts';
import type { Route } from '../routes/route.ts';
import type { PublicServices } from '../routes/shared-services.ts';
import type { PointerOwner } from '../seal/pointer.ts';
import { SessionSeal } from '../seal/session-seal.ts';
import { identification } from './callers.ts';
import {
  NO_SESSION,
  openSession,
  readInitialize,
  refuse,
  serveInSession,
  type LegacyRequest,
  type OpeningRefusal,
} from './legacy/endpoint.ts';
import { asLine, readClientMessage, type ClientRequest } from './legacy/envelope.ts';
import type { StreamResponse } from './legacy/event-stream.ts';
import { serveElsewhere } from './legacy/hop.ts';
import { HttpResponse } from './legacy/http-response.ts';
import { Reply } from './legacy/reply.ts';
import { RewrittenResponse } from './legacy/rewritten-response.ts';
import type { LegacySessions } from './legacy/sessions.ts';
import { passesLimits } from './passed-limits.ts';
import { PassedRights } from './passed-rights.ts';

const METHODS: HTTPMethods[] = ['GET', 'HEAD', 'DELETE', 'PUT', 'PATCH', 'OPTIONS'];
const ALLOWED = { allow: 'POST, GET, DELETE' };
const SESSION_HEADER = 'mcp-session-id';

/** Serves the legacy clients of a route, whose callers were identified. */
export interface LegacyFace {
  /** Serves a POST whose body was read. */
  readonly post: PassThrough;
  /** Serves a GET or DELETE. */
  readonly other: (request: PassedRequest) => Promise<void>;
  /** Tells whether a request is for a session that a legacy face has opened. */
  readonly isOwn: (request: PassedRequest) => boolean;
}

/** Tells whether the body of a POST is an `initialize`, which opens a session. */
export function isInitialize({ body }: PassedRequest): boolean {
  if (body?.includes('"initialize"') !== true) return false;
  try {
    return readInitialize(parseMessage(body.toString('utf8'))) !== null;
  } catch {
    return false;
  }
}

/**
 * Registers the methods that legacy clients use besides POST, on the path of a route whose server is reached over stdio.
 * @returns what serves a POST of theirs
 */
export function registerLegacyFace(
  app: FastifyInstance,
  route: Route,
  { post, other }: LegacyFace,
  shared: PublicServices,
): PassThrough {
  const identify = identification(route, shared);
  app.route({
    url: route.config.path,
    method: METHODS,
    handler: async ({ raw, method }, reply) => {
      raw.resume();
      const caller = await identify(raw);
      const { raw: response } = reply.hijack();
      if ('httpStatus' in caller) {
        return refuseHttp(response, caller.httpStatus, caller.message, caller.headers);
      }
      if (method === 'GET' || method === 'DELETE') {
        return other({ raw, response, caller, body: null });
      }
      refuseHttp(response, 405, `${method} is not a method of this path`, ALLOWED);
    },
  });
  return post;
}

export function createLegacyFace(
  route: Route,
  sessions: LegacySessions,
  shared: PublicServices,
): LegacyFace {
  const { identity, log, metrics, openResponses } = shared;
  const { id } = route.config;
  const server = route.server.channels;
  const tellOfLegacyClient = once(() => log.event('route.legacy_client', { route: id }));
  const ids = sessionIds(route, shared);
  const serve = createServing(route, sessions, ids, shared);
  const rights = new PassedRights(route, shared);
  // The server names its own URL in what it challenges a client with.
  const httpResponseTo = (response: ServerResponse) =>
    new HttpResponse(response, (status, challenge) => {
      route.resource?.answered(status, challenge);
      return route.resource?.challenge(challenge) ?? challenge;
    });
  const responseTo = (request: PassedRequest): StreamResponse => {
    const rewrite = rights.rewriteOf(request);
    const plain = httpResponseTo(request.response);
    return rewrite === null ? plain : new RewrittenResponse(plain, rewrite);
  };
  const begin = ({ raw, response }: PassedRequest) => {
    metrics.passed.inc({ route: id });
    tellOfLegacyClient();
    // What goes on for a caller ends with its token.
    response.once(
      'close',
      identity.untilRefused(raw, () => response.destroy()),
    );
  };
  const other: LegacyFace['other'] = async (request) => {
    // As for a POST.
    if (request.response.destroyed) return;
    begin(request);
    const verb = request.raw.method === 'GET' ? 'GET' : 'DELETE';
    await serve(request, responseTo(request), verb);
  };
  const isOwn: LegacyFace['isOwn'] = ({ raw, caller }) => {
    const sealed = raw.headers[SESSION_HEADER];
    return typeof sealed === 'string' && ids.open(raw, sealed, caller) !== null;
  };
  const post: PassThrough = async (request) => {
    const { raw, response, caller, body } = request;
    // The edge has read it before: it is JSON.
    const json = body?.toString('utf8') ?? '';
    const value = parseMessage(json);
    const initialize = readInitialize(value);
    if (!rights.passes(request, false)) return;
    if (initialize === null && !(await passesLimits(route, request))) return;
    // The client may have left during the checks, and `close` is emitted only once.
    if (response.destroyed) return;
    response.once('close', openResponses.open());
    begin(request);
    traceRequest(route, shared, raw, value, response);
    if (initialize === null) {
      return inBackground(serve(request, responseTo(request), { json, value }));
    }
    const limited = await limitOf(route, caller.principalKey);
    const opening = {
      server,
      owner: ownerOf(caller),
      headers: caller.headers,
      refusal: route.calls.isStopping ? STOPPED : limited,
      headersOf: (key: string) => ({
        [SESSION_HEADER]: ids.seal(key, caller, server.keepsNothing ? keptOf(json) : undefined),
      }),
    };
    const message = { json, message: initialize };
    const opened = openSession(sessions, opening, message, httpResponseTo(response));
    // The session that the client had so far ends once it has another one.
    const endFormer = (isOpen: boolean) =>
      isOpen && raw.headers[SESSION_HEADER] !== undefined
        ? serve(request, new Reply(), 'DELETE')
        : undefined;
    inBackground(opened.then(endFormer));
  };
  return { post, other, isOwn };
}

/** Has a span tell of a request, for as long as its response is open: what is in that passes unread. */
function traceRequest(
  { config }: Route,
  { tracer }: PublicServices,
  { headers }: IncomingMessage,
  value: JsonValue,
  response: ServerResponse,
): void {
  const message = tracer === null ? null : readClientMessage(value);
  if (tracer === null || message?.type !== 'request') return;
  const params = (isJsonObject(value) && objectMember(value, 'params')) || {};
  const request = { id: clientRequestId(message.id), method: message.method, params };
  const origin = originOf(objectMember(params, '_meta') ?? {}, headers);
  const revision = valueOf(headers['mcp-protocol-version']);
  const span = startSpan(tracer, config.id, request, revision, origin);
  response.once('close', () => span.end(null));
}

const STOPPED = { httpStatus: 503, failure: STOPPING, retryAfterMs: STOPPING_WAIT_MS } as const;

/** Returns why a caller can open no session now; `null` if it can. */
async function limitOf({ admission }: Route, principalKey: string): Promise<OpeningRefusal | null> {
  const asked = { principalKey, tool: null, isCall: false, isRetry: false, hasMore: false };
  const verdict = await admission.admit(asked);
  if (verdict.type === 'admitted') return null;
  const { limit, failure, retryAfterMs } = verdict;
  return { httpStatus: statusOfLimit(limit) === 503 ? 503 : 200, failure, retryAfterMs };
}

/** Creates what serves a request for a session, here or at the process that has it. */
function createServing(
  route: Route,
  sessions: LegacySessions,
  ids: ReturnType<typeof sessionIds>,
  { replica }: PublicServices,
) {
  const { id } = route.config;
  const server = route.server.channels;
  return async (
    { raw, caller }: Pick<PassedRequest, 'raw' | 'caller'>,
    response: StreamResponse,
    asked: 'GET' | 'DELETE' | { readonly json: string; readonly value: JsonValue },
  ): Promise<void> => {
    const { headers } = raw;
    const sealed = headers[SESSION_HEADER];
    if (typeof sealed !== 'string') {
      return refuse(response, 400, 'Mcp-Session-Id is missing: a session begins with initialize');
    }
    const session = ids.open(raw, sealed, caller);
    // Another principal learns nothing of it.
    if (session === null) return refuse(response, 404, NO_SESSION);
    const [verb, posted] = typeof asked === 'string' ? [asked, null] : (['POST', asked] as const);
    const request: LegacyRequest = {
      ...{ verb, route: id, key: session.key, body: posted?.json ?? '' },
      accept: headers.accept ?? null,
      version: valueOf(headers['mcp-protocol-version']),
      lastEventId: valueOf(headers['last-event-id']),
      headers: caller.headers,
    };
    const { owner } = session;
    if (owner.instance === replica.owner.instance || sessions.find(session.key, id) !== null) {
      return serveInSession(sessions, request, response, posted?.value);
    }
    const relay = replica.relayOf(id);
    if (relay !== null) return serveElsewhere(relay, owner, request, response);
    // Without a relay the process that had it has ended, or is a replica that this one knows nothing of.
    const initialize = session.initialize === undefined ? null : readLine(session.initialize);
    if (initialize === null || !server.keepsNothing) return refuse(response, 404, NO_SESSION);
    if (verb === 'DELETE') {
      response.head(200, {});
      return response.end();
    }
    if (route.calls.isStopping) return refuse(response, 503, STOPPING.error.message);
    const opening = { server, owner: ownerOf(caller), headers: caller.headers };
    const { line, message } = initialize;
    const opened = await sessions.reopen(opening, session.key, line, message);
    if (opened.key === null && opened.httpStatus !== 200) {
      // A client gets other credentials, and comes back.
      response.head(opened.httpStatus, { ...opened.headers, 'content-type': 'application/json' });
      return response.end(opened.line);
    }
    if (opened.key === null) {
      return refuse(response, 503, 'The session could not be opened again: try again');
    }
    return serveInSession(sessions, request, response, posted?.value);
  };
}

function valueOf(header: string | string[] | undefined): string | null {
  return typeof header === 'string' && header !== '' ? header : null;
}

/** An id is a header, and some clients bound theirs to 8 KiB. In characters. */
const MAX_KEPT = 2_048;

/** Returns what of `initialize` goes into the id of its session; nothing if that is too long. */
function keptOf(json: string): string | undefined {
  const line = asLine(json);
  return line.length <= MAX_KEPT ? line : undefined;
}

function ownerOf({ principal, principalKey }: Caller) {
  return { principal: principal === null ? null : principalKey, principalKey };
}

function readLine(line: string): { line: string; message: ClientRequest } | null {
  const message = readInitialize(parseMessage(line));
  return message === null ? null : { line, message };
}

const sessionId = z.strictObject({
  key: z.string(),
  /** The `initialize` of the client, if the session can be opened again with it. */
  initialize: z.exactOptional(z.string()),
  owner: z.strictObject({
    id: z.string(),
    instance: z.string(),
    address: z.exactOptional(z.string()),
  }),
});

type SessionId = z.infer<typeof sessionId>;

/** Seals the ids of sessions for the principals whose they are, with the process that has them. */
function sessionIds(route: Route, { config, sealKeys, replica }: PublicServices) {
  const { audience } = config.seal;
  const seal = new SessionSeal({ keys: sealKeys, audience, route: route.config.id });
  /** A request is looked at before it is served. */
  const opened = new WeakMap<IncomingMessage, SessionId | null>();
  // Without an identity source, credentials only tell callers apart, and a client can renew them.
  const nameOf = ({ principal }: Caller) =>
    config.identity.source === 'none' ? '' : (principal ?? '');
  return {
    seal: (key: string, caller: Caller, initialize?: string): string => {
      const owner: PointerOwner = replica.owner;
      return seal.seal('own-id', JSON.stringify({ key, owner, initialize }), nameOf(caller)) ?? '';
    },
    /** @returns `null` if it was not sealed for this caller */
    open: (request: IncomingMessage, sealed: string, caller: Caller): SessionId | null => {
      const known = opened.get(request);
      if (known !== undefined) return known;
      const plain = seal.open('own-id', sealed, nameOf(caller));
      const id = plain === null ? null : (sessionId.safeParse(parseJson(plain)).data ?? null);
      opened.set(request, id);
      return id;
    },
  };
}
