/** The gateway's own metadata as a protected resource, where it is configured. The upstream's never takes its place. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { publicPaths, type Config } from '../config/schema.ts';
import { allowOrigin, isPreflight, respondToPreflight } from '../edge/http/guard.ts';
import { refuse, sendJson } from '../edge/response-writer.ts';
import { protectedResource, type ProtectedResource } from '../identity/protected-resource.ts';
import { pathOf } from '../lib/http.ts';
import { ROOT_METADATA_PATH } from '../protocol/protected-resource.ts';
import type { PublicServices } from '../routes/shared-services.ts';

/**
 * The metadata of the upstream's authorization server would lead clients to tokens that the gateway refuses: those of
 * 2025-03-26 look for it at the server itself (authorization, "Server Metadata Discovery").
 */
const NOT_OURS = ['oauth-authorization-server', 'openid-configuration'].map(
  (name) => `/.well-known/${name}`,
);

/** Describes a route as a protected resource. @returns `null` if no metadata is configured */
export function resourceOf({ identity, routes }: Config, path: string): ProtectedResource | null {
  if (identity.source !== 'jwt' || identity.resourceMetadata === null) return null;
  const paths = routes.flatMap(publicPaths);
  return protectedResource(identity.resourceMetadata, identity.issuer, path, paths);
}

/** Serves the metadata of all routes and dialects to everybody. */
export function serveOwnMetadata(app: FastifyInstance, { config }: PublicServices): void {
  const documents = new Map<string, ProtectedResource['document']>();
  for (const path of config.routes.flatMap(publicPaths)) {
    const resource = resourceOf(config, path);
    for (const at of resource?.paths ?? []) documents.set(at, resource?.document ?? {});
  }
  if (documents.size === 0) return;
  const handler = ({ raw, url }: FastifyRequest, reply: FastifyReply) => {
    const response = reply.hijack().raw;
    if (raw.headers.origin !== undefined) allowOrigin(response, raw.headers.origin);
    if (isPreflight(raw)) return respondToPreflight(raw, response, []);
    const document = documents.get(pathOf(url));
    if (document === undefined) return refuse(response, 404, 'Not found');
    sendJson(response, 200, document);
  };
  for (const path of [ROOT_METADATA_PATH, ...NOT_OURS]) {
    for (const url of [path, `${path}/*`]) {
      app.route({ method: ['GET', 'HEAD', 'OPTIONS'], url, handler });
    }
  }
}
