/** Connects the legacy face with a route whose server is reached over stdio: who may use it, and in which limits. */
import type { ServerResponse } from 'node:http';
import type { FastifyInstance, FastifyRequest, HTTPMethods } from 'fastify';
import { inBackground } from '../lib/background.ts';
import { once } from '../lib/once.ts';
import { refuse } from '../edge/response-writer.ts';
import type { Route } from '../routes/route.ts';
import type { PublicServices } from '../routes/shared-services.ts';
import { SessionSeal } from '../seal/session-seal.ts';
import { callersOf } from './callers.ts';
import { LegacyEndpoint, type LegacyExchange } from './legacy/endpoint.ts';
import type { LegacySessions } from './legacy/sessions.ts';
import { knownCaller } from './other-paths.ts';
import type { PassThrough } from './passthrough/passthrough.ts';
import { passesLimits } from './passed-limits.ts';
import { NO_PASS_THROUGH } from './route-pass-through.ts';

const METHODS: HTTPMethods[] = ['GET', 'HEAD', 'DELETE', 'PUT', 'PATCH', 'OPTIONS'];
const ALLOWED = { allow: 'POST, GET, DELETE' };

/**
 * Registers the methods that legacy clients use on the path of a route besides POST.
 * @returns what serves a POST of theirs
 */
export function registerLegacyFace(
  scope: FastifyInstance,
  route: Route,
  sessions: LegacySessions,
  shared: PublicServices,
): PassThrough {
  const { identity, log, metrics, openResponses } = shared;
  const { id, path } = route.config;
  const { calls } = route;
  const server = route.server.channels;
  if (server === null) return NO_PASS_THROUGH;
  const isStopping = () => calls.isStopping;
  const endpoint = new LegacyEndpoint({ server, sessions, openResponses, isStopping });
  const tellOfLegacyClient = once(() => log.event('route.legacy_client', { route: id }));
  const callers = callersOf(route, shared);
  const exchangeOf = createExchanges(route, shared);
  const passed = () => {
    metrics.passed.inc({ route: id });
    tellOfLegacyClient();
  };
  scope.removeAllContentTypeParsers();
  scope.addContentTypeParser('*', (_request, payload, done) => done(null, payload));
  scope.route({
    url: path,
    method: METHODS,
    handler: async (request, reply) => {
      const { raw } = request;
      raw.resume();
      const refusal = await callers.refusalOf(raw);
      const response = reply.hijack().raw;
      if (refusal !== null) {
        return refuse(response, refusal.httpStatus, refusal.message, refusal.headers);
      }
      const exchange = exchangeOf(request, reply.raw);
      if (request.method === 'GET') {
        passed();
        // What goes on for a caller ends with its token.
        response.once(
          'close',
          identity.untilRefused(raw, () => response.destroy()),
        );
        endpoint.get(exchange);
      } else if (request.method === 'DELETE') endpoint.delete(exchange);
      else refuse(response, 405, `${request.method} is not a method of this path`, ALLOWED);
    },
  });
  return async (request, reply) => {
    if (!(await passesLimits(route, request, reply, shared))) return;
    passed();
    const body: unknown = request.body;
    const exchange = exchangeOf(request, reply.raw);
    reply.hijack();
    inBackground(endpoint.post(exchange, Buffer.isBuffer(body) ? body : Buffer.alloc(0)));
  };
}

function createExchanges(route: Route, shared: PublicServices) {
  const { config, sealKeys, replica } = shared;
  const seal = new SessionSeal({
    keys: sealKeys,
    audience: config.seal.audience,
    route: route.config.id,
  });
  const { instance } = replica.owner;
  return (request: FastifyRequest, response: ServerResponse): LegacyExchange => {
    const { kind, principal, principalKey } = knownCaller(request, route, shared);
    // Without an identity source, credentials only tell callers apart, and a client can renew them.
    const owner = config.identity.source === 'none' ? '' : (principal ?? '');
    const isNamed = kind === 'verified' || kind === 'credentials';
    return {
      request: request.raw,
      response,
      owner: { principal: isNamed ? principalKey : null, principalKey },
      ids: {
        seal: (key) => seal.seal('id', `${instance}:${key}`, owner) ?? '',
        open: (id) => seal.open('id', id, owner)?.split(':')[1] ?? null,
      },
    };
  };
}
