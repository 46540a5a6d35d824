/**
 * Passes requests that are not for the modern edge through to the legacy server: bodies, queries and event streams
 * byte by byte. Only what a proxy must change is changed.
 */
import httpProxy from '@fastify/http-proxy';
import type replyFrom from '@fastify/reply-from';
import fastifyPlugin from 'fastify-plugin';
import type { FastifyInstance, FastifyReply, FastifyRequest, HTTPMethods } from 'fastify';
import { PassThroughForwarder } from './forwarder.ts';
import type { OnRefused, PassThroughOptions } from './options.ts';
import { readsMetadata } from './request.ts';
import { refusePassThrough, refuseCaller } from './response.ts';
import { UpstreamAgent } from './upstream-agent.ts';

export interface PassThrough {
  /**
   * Passes on a request of a known caller for the public path. A body that was read must be a `Buffer`, and is sent as
   * it is. Resolves when the response has begun or the client has left. Never rejects.
   */
  forward(request: FastifyRequest, reply: FastifyReply, onRefused?: OnRefused): Promise<void>;
}

type LibraryRequest = Extract<
  NonNullable<replyFrom.FastifyReplyFromOptions['undici']>,
  { request: unknown }
>['request'];

/** Makes `reply.from` of the library available to the edge, which the library limits to a scope of its own. */
const shared = fastifyPlugin<Parameters<typeof httpProxy>[1]>((scope, options, done) =>
  httpProxy(scope, options, done),
);

/** A POST to the public path goes to the edge, which calls `forward` for legacy requests. */
const METHODS_OF_PATH: HTTPMethods[] = ['GET', 'HEAD', 'DELETE', 'PUT', 'PATCH', 'OPTIONS'];

/**
 * Registers the routes of one upstream. Each upstream needs a Fastify scope of its own (`app.register`), whose bodies
 * stay streams. Code that reads bodies needs a scope within it.
 */
export async function registerPassThrough(
  scope: FastifyInstance,
  options: PassThroughOptions,
): Promise<PassThrough> {
  const agent = new UpstreamAgent(options);
  const forwarder = new PassThroughForwarder(agent, options);
  const endpoint: PassThrough['forward'] = (request, reply, onRefused) =>
    forwarder.forward(request, reply, options.upstream.pathname, onRefused);
  const proxy = {
    upstream: options.upstream.origin,
    // The library's types are those of its own undici. It only calls this function with a callback.
    undici: { request: agent.request as unknown as LibraryRequest },
    disableRequestLogging: true,
  };
  scope.removeAllContentTypeParsers();
  await scope.register(shared, {
    ...proxy,
    routes: [options.path],
    httpMethods: METHODS_OF_PATH,
    handler: async (request, reply) => {
      const refusal = await options.refusalOf(request);
      return refusal === null ? endpoint(request, reply) : refuseCaller(reply, refusal);
    },
  });
  if (options.others.length > 0) {
    await scope.register(httpProxy, {
      ...proxy,
      routes: [...options.others],
      httpMethods: [...METHODS_OF_PATH, 'POST'],
      // The scope already streams its bodies.
      proxyPayloads: false,
      handler: async (request, reply) => {
        const isOpen = readsMetadata(request.method, request.raw.url ?? '');
        const refusal = isOpen ? null : await options.refusalOf(request);
        return refusal === null
          ? forwarder.forward(request, reply, null)
          : refuseCaller(reply, refusal);
      },
    });
  }
  scope.addHook('onClose', () => agent.close());
  return { forward: endpoint };
}

/** Registers the path of a server over stdio: there is no HTTP behind it. */
export async function registerNoPassThrough(
  scope: FastifyInstance,
  path: string,
): Promise<PassThrough> {
  const refuseMethod = async (request: FastifyRequest, reply: FastifyReply) => {
    // streamable-http, "Earlier Streamable HTTP Revisions"
    reply.raw.setHeader('allow', 'POST');
    refusePassThrough(reply, 405, `${request.method} is not part of this protocol revision`);
  };
  scope.route({ method: METHODS_OF_PATH, url: path, handler: refuseMethod });
  return { forward: refuseMethod };
}
