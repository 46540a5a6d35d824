/**
 * Passes requests that are not for the modern edge through to the legacy server: bodies, queries and event streams
 * byte by byte. Only what a proxy must change is changed.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FastifyInstance, HTTPMethods } from 'fastify';
import type { OnRefused, PassedRequest, PassThrough } from '../../edge/options.ts';
import type { Caller, CallerRefusal } from '../../model/request.ts';
import { PassThroughForwarder } from './forwarder.ts';
import type { PassThroughOptions } from './options.ts';
import { ProxyApp } from './proxy-app.ts';
import { INVALID_TARGET, plainPath, readsMetadata } from './request.ts';
import { refusePassThrough } from './response.ts';
import { UpstreamAgent } from './upstream-agent.ts';

/** A POST to the public path goes to the edge, which passes on legacy requests. */
const METHODS_OF_PATH: HTTPMethods[] = ['GET', 'HEAD', 'DELETE', 'PUT', 'PATCH', 'OPTIONS'];

/** Registers the routes of one upstream in an application that reads no body. */
export function registerPassThrough(
  app: FastifyInstance,
  options: PassThroughOptions,
): PassThrough {
  const agent = new UpstreamAgent(options);
  const forwarder = new PassThroughForwarder(agent, options);
  const proxy = new ProxyApp(agent, options);
  /** @param path of the endpoint upstream; `null` for the path of the request */
  const forward = async (request: PassedRequest, path: string | null, onRefused?: OnRefused) => {
    if (!options.takesPlace(request)) return;
    await proxy.serve(request, (reply) => forwarder.forward(request, reply, path, onRefused));
  };
  const endpoint: PassThrough = (request, onRefused) =>
    forward(request, options.upstream.pathname, onRefused);
  const route = (
    url: string,
    method: HTTPMethods[],
    serve: (raw: IncomingMessage, response: ServerResponse) => Promise<void>,
  ) =>
    app.route({
      url,
      method,
      handler: async ({ raw }, reply) => {
        await serve(raw, reply.raw);
        reply.hijack();
      },
    });
  route(options.path, METHODS_OF_PATH, async (raw, response) => {
    const request = letIn(await options.identify(raw), raw, response);
    if (request === null) return;
    const served = options.serveElsewhere(request);
    if (served !== null) return served;
    if (options.admitsEndpoint(request)) await endpoint(request);
  });
  for (const url of options.others) {
    route(url, [...METHODS_OF_PATH, 'POST'], async (raw, response) => {
      const { url: target = '', method = '' } = raw;
      if (plainPath(target) === null) return refusePassThrough(response, 400, INVALID_TARGET);
      const isOpen = readsMetadata(method, target);
      const caller = isOpen ? options.readerOf(raw) : await options.identify(raw);
      const request = letIn(caller, raw, response);
      const admitted = request === null ? null : await options.admitsOther(request);
      if (admitted !== null) await forward(admitted, null);
    });
  }
  app.addHook('onClose', async () => {
    await proxy.close();
    await agent.close();
  });
  return endpoint;
}

/** @returns the request of a caller who is let in; `null` if the caller is refused, and has the response */
function letIn(
  caller: Caller | CallerRefusal,
  raw: IncomingMessage,
  response: ServerResponse,
): PassedRequest | null {
  if (!('httpStatus' in caller)) return { raw, response, caller, body: null };
  const { httpStatus, message, headers } = caller;
  refusePassThrough(response, httpStatus, message, undefined, headers);
  return null;
}
