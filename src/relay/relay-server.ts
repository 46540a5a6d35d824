/**
 * The owner's side of a relay: takes the retries that landed on other replicas. It believes nothing of
 * what another replica has checked; the bridge opens the pointer again.
 */
import type { ServerResponse } from 'node:http';
import fastify, { type FastifyInstance } from 'fastify';
import type { CallAnswer, EdgeRequest, Leg } from '../bridge/leg.ts';
import type { Clock, Timer } from '../clock.ts';
import type { JsonObject } from '../protocol/json.ts';
import type { OpenAnswers } from '../open-answers.ts';
import type { KeyRing } from '../seal/key-ring.ts';
import { readRelayRequest, writeRelayLine } from './relay-message.ts';
import { isRelayToken } from './relay-token.ts';

export interface RelayServerOptions {
  readonly ring: KeyRing<'relay'>;
  /** This process, as pointers name it. */
  readonly boot: string;
  readonly maxBodyBytes: number;
  readonly openAnswers: OpenAnswers;
  readonly clock: Clock;
  /** Serves a retry of the route, or gives `null` when its call is not here. */
  readonly retry: (
    route: string,
    request: EdgeRequest,
    leg: Leg,
  ) => Promise<{ answer: Promise<CallAnswer> } | null>;
}

export const RELAY_PATH = '/relay';
export const RELAY_TOKEN_HEADER = 'mrtr-relay-token';
/** The other side takes a longer silence for death. */
export const SIGN_OF_LIFE_MS = 500;
/** How long a replica that gave us up may take to claim the call. */
const TAKEOVER_MS = 1_000;

/** The relay's application, for a listener that only replicas can reach. */
export function createRelayServer(options: RelayServerOptions): FastifyInstance {
  const app = fastify({
    logger: false,
    bodyLimit: options.maxBodyBytes,
    requestTimeout: 30_000,
    http: { headersTimeout: 10_000, connectionsCheckingInterval: 1_000 },
    forceCloseConnections: true,
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
  app.post(RELAY_PATH, async (request, reply) => {
    const { ring, boot, clock, retry } = options;
    const body = request.body instanceof Buffer ? request.body : Buffer.alloc(0);
    const token = request.headers[RELAY_TOKEN_HEADER];
    // Also what a replica gets that takes us for the process that had this address before.
    if (!(await isRelayToken(ring, token, boot, body, clock))) return reply.code(421).send();
    const message = readRelayRequest(body);
    if (message === null) return reply.code(400).send();
    const leg = new RelayedLeg(reply.raw, clock);
    const served = await retry(message.route, message.request, leg);
    if (served === null) return reply.code(404).send();
    reply.hijack();
    options.openAnswers.add(reply.raw);
    leg.begin();
    leg.finish(await served.answer);
    return reply;
  });
  return app;
}

/** A leg whose client waits at another replica. */
class RelayedLeg implements Leg {
  readonly #response: ServerResponse;
  readonly #clock: Clock;
  readonly #closed = new AbortController();
  #timer: Timer | null = null;
  #ended = false;

  constructor(response: ServerResponse, clock: Clock) {
    this.#response = response;
    this.#clock = clock;
    response.once('close', () => {
      this.#timer?.cancel();
      if (this.#ended) return;
      // Perhaps we were taken for dead: then the call is about to be claimed elsewhere, and not over.
      this.#timer = clock.setTimer(TAKEOVER_MS, () => this.#closed.abort());
    });
  }

  get closed(): AbortSignal {
    return this.#closed.signal;
  }

  begin(): void {
    this.#response.writeHead(200, { 'content-type': 'application/x-ndjson' });
    this.#beat();
  }

  notify(method: string, params: JsonObject): void {
    this.#write(writeRelayLine({ type: 'notification', method, params }));
  }

  finish(answer: CallAnswer): void {
    this.#timer?.cancel();
    this.#ended = true;
    if (!this.#response.destroyed) this.#response.end(writeRelayLine({ type: 'answer', answer }));
  }

  #beat(): void {
    this.#write('\n');
    this.#timer = this.#clock.setTimer(SIGN_OF_LIFE_MS, () => this.#beat());
  }

  #write(text: string): void {
    if (!this.#ended && !this.#response.destroyed) this.#response.write(text);
  }
}
