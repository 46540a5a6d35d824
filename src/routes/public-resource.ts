/**
 * A route whose server takes tokens for the public URL of the gateway: its metadata and its challenges name that URL
 * (RFC 9728; authorization, "Authorization Server Discovery").
 */
import type { FastifyInstance, FastifyReply } from 'fastify';
import type { Clock } from '../lib/clock.ts';
import { Cached } from '../lib/cached.ts';
import type { HttpUpstreamConfig } from '../config/schema.ts';
import { refuse, sendJson } from '../edge/response-writer.ts';
import type { CallReply, Caller } from '../model/request.ts';
import type { Log } from '../ops/log.ts';
import { isJsonObject, type JsonObject } from '../protocol/json.ts';
import {
  challengeParameter,
  metadataPath,
  publicChallenge,
  publicMetadata,
  resourceIdentifier,
  ROOT_METADATA_PATH,
} from '../protocol/protected-resource.ts';
import { asUpstreamFailure } from '../model/upstream-failure.ts';
import { HttpClient } from '../upstream/http/client.ts';
import { MessageReader } from '../upstream/http/readers.ts';

const MAX_METADATA_BYTES = 64 * 1024;
const METADATA_TIMEOUT_MS = 10_000;
const MAX_PATH_CHARACTERS = 512;
/** How long it is kept what the server has, so that it is not asked for each reader: anyone may read it. */
const KEPT_MS = 2_000;

interface Read {
  readonly document: JsonObject | null;
  readonly isReachable: boolean;
}

export interface PublicResourceOptions {
  readonly route: string;
  /** That of the route. */
  readonly path: string;
  readonly server: HttpUpstreamConfig;
  readonly publicUrl: URL;
  readonly clock: Clock;
  readonly log: Log;
}

export class PublicResource {
  /** The paths at which clients of this route look for the metadata. */
  readonly paths: readonly string[];
  readonly #options: PublicResourceOptions;
  readonly #http: HttpClient;
  #kept = new Cached<Read>();
  /** The path of the metadata that the server named last. */
  #namedPath: string | null = null;
  /** Whether the server took a token, or refused all so far. */
  #tokens: 'untried' | 'refused' | 'taken' = 'untried';

  constructor(options: PublicResourceOptions) {
    this.#options = options;
    const { path, server, publicUrl, clock } = options;
    // The operator's headers are credentials for the endpoint, and the metadata is public.
    const limits = { maxBodyBytes: MAX_METADATA_BYTES, maxEventBytes: MAX_METADATA_BYTES };
    this.#http = new HttpClient({ ...server, ...limits, headers: {} }, clock);
    // A proxy in front may serve the route under another path.
    this.paths = [...new Set([metadataPath(publicUrl), metadataPath(new URL(path, publicUrl))])];
  }

  /** Rewrites a challenge of the server. */
  challenge(challenge: string): string {
    const named = challengeParameter(challenge, 'resource_metadata');
    const url = named === null ? null : URL.parse(named);
    const path = url === null ? null : `${url.pathname}${url.search}`;
    if (path !== null && path.length <= MAX_PATH_CHARACTERS && path !== this.#namedPath) {
      this.#namedPath = path;
      this.#kept = new Cached();
    }
    return publicChallenge(challenge, this.#options.publicUrl);
  }

  /** Rewrites the challenge in a reply, and notes what became of the caller's token. */
  published(reply: CallReply, { headers: { authorization } }: Caller): CallReply {
    if (reply.kind === 'result') {
      if (authorization !== undefined) this.answered(200, null);
      return reply;
    }
    const { failure } = reply;
    const { httpStatus, headers } = failure;
    const challenge = headers?.['www-authenticate'];
    if (authorization !== undefined && httpStatus === 401) this.answered(401, challenge ?? null);
    if (challenge === undefined) return reply;
    const rewritten = { ...headers, 'www-authenticate': this.challenge(challenge) };
    return { kind: 'failed', failure: { ...failure, headers: rewritten } };
  }

  /** Notes how the server responded to a token. It is logged once if the server takes none. */
  answered(httpStatus: number, challenge: string | null): void {
    if (httpStatus < 400) this.#tokens = 'taken';
    if (httpStatus !== 401 || this.#tokens !== 'untried') return;
    this.#tokens = 'refused';
    const error = challenge === null ? null : challengeParameter(challenge, 'error');
    const { route, publicUrl, log } = this.#options;
    const resource = resourceIdentifier(publicUrl);
    log.event('upstream.token_refused', { route, resource, error });
  }

  /** Serves the metadata at these paths. */
  install(app: FastifyInstance, paths: readonly string[]): void {
    for (const url of paths) {
      app.route({
        method: ['GET', 'HEAD'],
        url,
        handler: (_request, reply) => this.#serve(reply.hijack()),
      });
      app.options(url, (_request, reply) => {
        reply
          .header('access-control-allow-origin', '*')
          .header('access-control-allow-headers', '*')
          .header('access-control-allow-methods', 'GET')
          .code(204)
          .send();
      });
    }
  }

  close(): Promise<void> {
    return this.#http.close();
  }

  async #serve({ raw }: FastifyReply): Promise<void> {
    const { publicUrl, clock } = this.#options;
    const { document, isReachable } = await this.#kept.get(clock, async () => ({
      value: await this.#read(),
      keepMs: KEPT_MS,
    }));
    // Anyone may read it, and browsers of clients have to.
    raw.setHeader('access-control-allow-origin', '*');
    if (document !== null) return sendJson(raw, 200, publicMetadata(document, publicUrl));
    if (isReachable) refuse(raw, 404, 'The server has no metadata for authorization');
    else refuse(raw, 502, 'The upstream server cannot be reached');
  }

  /** Reads the metadata where the server can have it: by its own path, by the public one, or as it said last. */
  async #read(): Promise<Read> {
    const { url } = this.#options.server;
    const places = [metadataPath(url), ...this.paths, ROOT_METADATA_PATH];
    if (this.#namedPath !== null) places.unshift(this.#namedPath);
    let isReachable = true;
    for (const place of new Set(places)) {
      try {
        const document = await this.#readAt(new URL(place, url.origin));
        if (document !== null) return { document, isReachable };
      } catch (error) {
        const { httpStatus = null } = asUpstreamFailure(error, false).details;
        if (httpStatus === null) isReachable = false;
      }
    }
    return { document: null, isReachable };
  }

  async #readAt(url: URL): Promise<JsonObject | null> {
    const reader = new MessageReader(() => true);
    const headers = { accept: 'application/json' };
    const timeoutMs = METADATA_TIMEOUT_MS;
    this.#http.send({ method: 'GET', url, headers, timeoutMs }, reader);
    const [document] = (await reader.done).messages;
    return isJsonObject(document) && typeof document['resource'] === 'string' ? document : null;
  }
}
