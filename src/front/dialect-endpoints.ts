/** The endpoints of a route's dialects: the route itself, behind other wires. */
import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { dialectPaths } from '../config/schema.ts';
import { DIALECTS, type DialectName } from '../dialects/dialects.ts';
import { ModernEndpoint, NO_TASKS } from '../edge/edge.ts';
import type { EdgeOptions, EdgeRoute } from '../edge/options.ts';
import { refuse } from '../edge/response-writer.ts';
import {
  dialectSession,
  readDialectRequest,
  type DialectPolicy,
} from '../edge/request/dialect-request.ts';
import type { Caller } from '../model/request.ts';
import { parseJson } from '../protocol/json.ts';
import { MODERN_REVISION } from '../protocol/meta.ts';
import { SessionSeal } from '../seal/session-seal.ts';
import { serveDraftTaskMethod } from '../tasks/methods.ts';
import { identification } from './callers.ts';
import { refusalsOf } from './edge-route.ts';
import type { Route } from '../routes/route.ts';
import type { PublicServices, SharedServices } from '../routes/shared-services.ts';

/** How long a client can use what it declared, in ms. After that it is told to initialize again. */
const TTL_MS = 7 * 24 * 3_600_000;

const sealedSession = dialectSession.extend({ expiresAtMs: z.number() });

/**
 * Creates the endpoints of a route's dialects.
 * @param edge the route on its own path
 * @param only narrows what is read
 * @returns the endpoints with their paths
 */
export function dialectEndpoints(
  route: Route,
  edge: EdgeRoute,
  options: EdgeOptions,
  shared: PublicServices,
  only = (read: EdgeOptions['read']) => read,
): (readonly [path: string, ModernEndpoint])[] {
  // A draft has tasks for all tools or for none.
  const tasks = route.tasks?.takesAnyCall === true ? route.tasks : null;
  const refusal = `This path serves a proposal, in front of legacy servers only; this server speaks ${MODERN_REVISION}: use ${route.config.path}`;
  return dialectPaths(route.config).map(([name, path]) => {
    const { codec } = DIALECTS[name];
    const sessions = dialectSessions(route.config.id, name, shared);
    const policy = { codec, offersTasks: tasks !== null, ...sessions };
    const endpoint = new ModernEndpoint(
      {
        ...edge,
        path,
        identify: identification(route, shared, path),
        isModern: (caller, method) =>
          route.server.upstream.knownKind === 'modern-stdio' || edge.isModern(caller, method),
        refusalOf: refusalsOf(route, shared, path),
        parameterHeaders: () => null,
        task: async (request, waiter) =>
          tasks === null ? NO_TASKS : serveDraftTaskMethod(tasks, request, waiter),
        // The reader finds nothing legacy here, so the server is modern.
        passThrough: async ({ response }) => refuse(response, 502, refusal),
      },
      {
        ...options,
        read: only((request, body, caller) => readDialectRequest(request, body, caller, policy)),
      },
    );
    return [path, endpoint] as const;
  });
}

/** Refuses what is no POST on the path of a dialect. There is no stream and no session to end: nothing reaches the server untranslated. */
export function refuseOtherMethods(app: FastifyInstance, path: string): void {
  app.route({
    method: app.supportedMethods.filter((method) => method !== 'POST'),
    url: path,
    handler: async (request, reply) => {
      const message = `${request.method} is not served on the path of a dialect`;
      refuse(reply.hijack().raw, 405, message, { allow: 'POST' });
    },
  });
}

/**
 * Creates what seals and opens the emulated sessions of one dialect on one route: what clients declared at `initialize`, sealed into
 * `Mcp-Session-Id`.
 */
function dialectSessions(
  route: string,
  dialect: DialectName,
  { config, sealKeys, clock }: SharedServices,
): Pick<DialectPolicy, 'seal' | 'open'> {
  const { audience } = config.seal;
  const seal = new SessionSeal({ keys: sealKeys, audience, route: `${route}/${dialect}` });
  return {
    seal: (session, caller) => {
      const content = JSON.stringify({ ...session, expiresAtMs: clock.now() + TTL_MS });
      // The seal takes bytes as Latin-1.
      const bytes = Buffer.from(content).toString('latin1');
      return seal.seal('declared', bytes, ownerOf(caller));
    },
    open: (id, caller) => {
      const bytes = seal.open('declared', id, ownerOf(caller));
      if (bytes === null) return null;
      // Another build may have sealed other members.
      const read = sealedSession.safeParse(parseJson(Buffer.from(bytes, 'latin1').toString()));
      if (!read.success) return null;
      const { expiresAtMs, ...session } = read.data;
      return expiresAtMs > clock.now() ? session : null;
    },
  };
}

/** Credentials are refreshed while a human thinks: the session of a client that only they identify stays valid. */
function ownerOf({ kind, principalKey }: Caller): string {
  return kind === 'verified' ? `verified ${principalKey}` : kind;
}
