/**
 * Passes requests that are not for the modern edge through to the legacy server: bodies, queries and event streams
 * byte by byte. Only what a proxy must change is changed.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest, HTTPMethods } from 'fastify';
import { PassThroughForwarder } from './forwarder.ts';
import type { OnRefused, PassThroughOptions } from './options.ts';
import { ProxyApp } from './proxy-app.ts';
import { INVALID_TARGET, plainPath, readsMetadata } from './request.ts';
import { refusePassThrough, refuseCaller } from './response.ts';
import { UpstreamAgent } from './upstream-agent.ts';

/**
 * Passes on a request of a known caller for the public path. A body that was read must be a `Buffer`, and is sent as it is.
 * Resolves when the response has begun or the client has left. Never rejects.
 */
export type PassThrough = (
  request: FastifyRequest,
  reply: FastifyReply,
  onRefused?: OnRefused,
) => Promise<void>;

/** A POST to the public path goes to the edge, which passes on legacy requests. */
const METHODS_OF_PATH: HTTPMethods[] = ['GET', 'HEAD', 'DELETE', 'PUT', 'PATCH', 'OPTIONS'];

/**
 * Registers the routes of one upstream. Each upstream needs a Fastify scope of its own (`app.register`), whose bodies
 * stay streams. Code that reads bodies needs a scope within it.
 */
export function registerPassThrough(
  scope: FastifyInstance,
  options: PassThroughOptions,
): PassThrough {
  const agent = new UpstreamAgent(options);
  const forwarder = new PassThroughForwarder(agent, options);
  const proxy = new ProxyApp(agent, options);
  /** @param path of the endpoint upstream; `null` for the path of the request */
  const forward = async (
    request: FastifyRequest,
    reply: FastifyReply,
    path: string | null,
    onRefused?: OnRefused,
  ) => {
    if (!options.takesPlace(request, reply)) return;
    await proxy.serve(request, reply, (response) =>
      forwarder.forward(request, response, path, onRefused),
    );
  };
  const endpoint: PassThrough = (request, reply, onRefused) =>
    forward(request, reply, options.upstream.pathname, onRefused);
  scope.removeAllContentTypeParsers();
  scope.addContentTypeParser('*', (_request, payload, done) => done(null, payload));
  scope.route({
    url: options.path,
    method: METHODS_OF_PATH,
    handler: async (request, reply) => {
      const refusal = await options.refusalOf(request);
      if (refusal !== null) return refuseCaller(reply, refusal);
      const served = options.serveElsewhere(request, reply);
      if (served !== null) return served;
      if (options.admitsEndpoint(request, reply)) await endpoint(request, reply);
    },
  });
  for (const url of options.others) {
    scope.route({
      url,
      method: [...METHODS_OF_PATH, 'POST'],
      handler: async (request, reply) => {
        const target = request.raw.url ?? '';
        if (plainPath(target) === null) return refusePassThrough(reply, 400, INVALID_TARGET);
        const isOpen = readsMetadata(request.method, target);
        const refusal = isOpen ? null : await options.refusalOf(request);
        if (refusal !== null) return refuseCaller(reply, refusal);
        if (await options.admitsOther(request, reply)) await forward(request, reply, null);
      },
    });
  }
  scope.addHook('onClose', async () => {
    await proxy.close();
    await agent.close();
  });
  return endpoint;
}
