/**
 * The forwarding library, in an application of its own. It is loaded with the first request that is passed through: it brings
 * a copy of undici of its own, which most gateways never use. A framework that serves requests takes no more plugins, so
 * the requests go on to another one, which has the library.
 */
import type { IncomingMessage } from 'node:http';
import type replyFrom from '@fastify/reply-from';
import type { FastifyError, FastifyInstance, FastifyReply } from 'fastify';
import { refuseError } from '../../edge/http/guard.ts';
import type { PassedRequest } from '../../edge/options.ts';
import { messageOf } from '../../lib/shown-text.ts';
import { createStreamingApp } from './streaming-app.ts';
import type { PassThroughOptions } from './options.ts';
import { refusePassThrough } from './response.ts';
import type { UpstreamAgent } from './upstream-agent.ts';

/** Serves a request by a reply that has `from`, the function of the library. */
export type ServeWithLibrary = (reply: FastifyReply) => Promise<void>;

/** A request on its way from the one application to the other. */
interface Passing {
  readonly serve: ServeWithLibrary;
  readonly done: () => void;
  readonly fail: (error: Error) => void;
}

type LibraryRequest = Extract<
  NonNullable<replyFrom.FastifyReplyFromOptions['undici']>,
  { request: unknown }
>['request'];

/** How long the library can take to load. */
const MAX_LOAD_MS = 10_000;

export class ProxyApp {
  readonly #agent: UpstreamAgent;
  readonly #options: PassThroughOptions;
  readonly #passing = new WeakMap<IncomingMessage, Passing>();
  #loading: Promise<FastifyInstance> | null = null;

  constructor(agent: UpstreamAgent, options: PassThroughOptions) {
    this.#agent = agent;
    this.#options = options;
  }

  /**
   * Serves a request of another application.
   * @param serve called with the reply of this application to the same `raw` request
   * @returns a promise that resolves when that has resolved, or when the request is refused because the library cannot be
   *   loaded
   */
  async serve({ raw, response }: PassedRequest, serve: ServeWithLibrary): Promise<void> {
    // A drain waits for what waits here.
    const begun = this.#options.openResponses.open();
    try {
      const app = await this.#load();
      const served = new Promise<void>((done, fail) => {
        this.#passing.set(raw, { serve, done, fail });
        app.routing(raw, response);
      });
      begun();
      await served;
    } catch (error) {
      if (!(error instanceof LibraryMissing)) throw error;
      this.#options.onFailure({ httpStatus: 500, problem: error.message });
      refusePassThrough(response, 500, 'Internal error');
    } finally {
      begun();
    }
  }

  async close(): Promise<void> {
    const app = await this.#loading?.catch(() => null);
    await app?.close();
  }

  #load(): Promise<FastifyInstance> {
    // The next request tries again: files may be missing while a package is replaced.
    this.#loading ??= this.#create().catch((error: unknown) => {
      this.#loading = null;
      throw new LibraryMissing(error);
    });
    return this.#loading;
  }

  async #create(): Promise<FastifyInstance> {
    const { upstream, maxBodyBytes, trustedProxies } = this.#options;
    const app = createStreamingApp({
      bodyLimit: maxBodyBytes,
      pluginTimeout: MAX_LOAD_MS,
      trustProxy: trustedProxies.length > 0 && [...trustedProxies],
    });
    app.setErrorHandler((error: FastifyError, { raw }, reply) => {
      const { raw: response } = reply.hijack();
      const passing = this.#passing.get(raw);
      if ((error.statusCode ?? 500) >= 500) return passing?.fail(error);
      refuseError(response, error);
      passing?.done();
    });
    app.register(async (scope) => {
      const { default: httpProxy } = await import('@fastify/http-proxy');
      await scope.register(httpProxy, {
        upstream: upstream.origin,
        // The library's types are those of its own undici. It only calls this function with a callback.
        undici: { request: this.#agent.request as unknown as LibraryRequest },
        disableRequestLogging: true,
        // The application already streams its bodies.
        proxyPayloads: false,
        routes: ['/*'],
        handler: async (request, reply) => {
          const passing = this.#passing.get(request.raw);
          if (passing === undefined) throw new Error('a request came past the other application');
          await passing.serve(reply);
          reply.hijack();
          passing.done();
        },
      });
    });
    await app.ready();
    return app;
  }
}

class LibraryMissing extends Error {
  readonly code = 'pass_through_not_loaded';

  constructor(cause: unknown) {
    super(`the forwarding library cannot be loaded: ${messageOf(cause)}`, { cause });
  }
}
