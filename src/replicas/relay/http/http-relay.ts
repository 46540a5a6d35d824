/**
 * The relay over HTTP: one request to the owner, whose response streams back, and short ones for later messages.
 * A retry whose connection breaks is sent once more: a live owner still has the call, and the port of a dead one is
 * closed. The owner trusts none of the checks of the other replica; `calls` opens the pointer again.
 */
import { Agent, request } from 'undici';
import type { ServerResponse } from 'node:http';
import fastify from 'fastify';
import { WITHOUT_SCHEMAS, cutWhenStalled } from '../../../lib/http.ts';
import type { FastifyInstance } from 'fastify';
import type { Leg } from '../../../model/request.ts';
import { CLIENT_LEFT, type Relay, type RelayOutcome } from '../../../model/relay.ts';
import { sleep, type Clock } from '../../../lib/clock.ts';
import { randomId } from '../../../lib/crypto.ts';
import type { KeyRing } from '../../../seal/key-ring.ts';
import type { PointerOwner } from '../../../seal/pointer.ts';
import {
  MAX_PIECE_BYTES,
  readLines,
  maxRetryBytes,
  maxSealedLength,
  openMessage,
  sealMessage,
  writeRequest,
  type MessageKind,
  type RelayMessage,
} from '../messages.ts';
import { PEERS_PATH } from '../../peers/peer-messages.ts';
import type { Peers } from '../../peers/peers.ts';
import { UNREAD_TIMEOUT_MS, type OwnerActivity } from '../liveness.ts';
import { OutgoingRetry, type ReachableOwner } from '../outgoing-retry.ts';
import { relayInLetters } from './letters.ts';
import { IncomingRetries, type IncomingRetriesOptions } from '../incoming-retry.ts';

export interface HttpRelayOptions {
  readonly ring: KeyRing<'relay'>;
  readonly audience: string;
  /** The name of this process in pointers. */
  readonly boot: string;
  readonly maxReplyBytes: number;
  readonly owners: OwnerActivity;
  readonly clock: Clock;
}

interface Tried {
  readonly outcome: RelayOutcome;
  /** The connection broke. */
  readonly isBroken: boolean;
  /** The process does not take the message. */
  readonly isRefused: boolean;
}

const CONNECT_TIMEOUT_MS = 1_000;
/** How long the owner can take to accept a short message, and this process to send the last ones. */
const SEND_TIMEOUT_MS = 1_000;

export class HttpRelay {
  readonly #options: HttpRelayOptions;
  readonly #agent = new Agent({
    connect: { timeout: CONNECT_TIMEOUT_MS },
    headersTimeout: 0,
    bodyTimeout: 0,
    pipelining: 1,
  });
  readonly #retries = new Set<OutgoingRetry>();
  readonly #sending = new Set<Promise<unknown>>();
  #isStopping = false;

  constructor(options: HttpRelayOptions) {
    this.#options = options;
  }

  /** Creates the relay from a route to the same route of the other replicas. */
  for(route: string): Relay {
    return {
      relay: (owner, request, leg) => this.#relay(owner, writeRequest({ route, request }), leg),
      sendClientsBack: () => {
        this.#isStopping = true;
        for (const retry of this.#retries) retry.sendClientBack();
      },
    };
  }

  async close(): Promise<void> {
    await Promise.race([Promise.all(this.#sending), sleep(this.#options.clock, SEND_TIMEOUT_MS)]);
    await this.#agent.destroy();
  }

  async #relay({ address, ...owner }: PointerOwner, text: string, leg: Leg): Promise<RelayOutcome> {
    if (address === undefined) return { type: 'gone', problem: 'it has no address' };
    const { owners } = this.#options;
    owners.recordRequest(owner.boot);
    const first = await this.#try({ ...owner, address }, text, leg);
    const second = first.isBroken ? await this.#try({ ...owner, address }, text, leg) : first;
    // A replica of an earlier build refuses a message as one for another process.
    const outcome = second.isRefused
      ? await this.#relayInLetters({ ...owner, address }, text, leg)
      : second.outcome;
    if (outcome.type !== 'silent' || owners.mayBeAlive(owner.boot)) return outcome;
    return { ...outcome, type: 'gone' };
  }

  #relayInLetters(owner: ReachableOwner, text: string, leg: Leg): Promise<RelayOutcome> {
    return relayInLetters(text, leg, {
      ...{ ...this.#options, to: owner.boot },
      post: (sealed, signal) => this.#post(owner, sealed, signal),
    });
  }

  async #try(owner: ReachableOwner, text: string, leg: Leg): Promise<Tried> {
    if (leg.closed.aborted) return { outcome: CLIENT_LEFT, isBroken: false, isRefused: false };
    const { owners, clock, maxReplyBytes } = this.#options;
    const id = randomId();
    const connection = new AbortController();
    const retry = new OutgoingRetry(leg, {
      clock,
      maxLineLength: maxReplyBytes,
      sendsHeartbeats: false,
      // Half the time after which the owner takes this process for dead.
      maxPauseMs: UNREAD_TIMEOUT_MS / 2,
      send: (kind, content = '') => this.#send(owner, id, kind, content),
      sinceMessageMs: () => owners.sinceMessageMs(owner.boot),
      onEnd: () => void this.#retries.delete(retry),
    });
    this.#retries.add(retry);
    if (this.#isStopping) retry.sendClientBack();
    const ending = this.#receiveAll(owner, id, text, retry, connection.signal);
    const outcome = await retry.outcome;
    connection.abort();
    return {
      outcome,
      isBroken: outcome.type === 'silent' && (await ending) === 'broken',
      isRefused: outcome.type === 'gone' && (await ending) === 'refused',
    };
  }

  /** Sends a retry and receives the owner's messages to their end. @returns what was wrong with the connection */
  async #receiveAll(
    owner: ReachableOwner,
    id: string,
    text: string,
    retry: OutgoingRetry,
    signal: AbortSignal,
  ): Promise<'broken' | 'refused' | null> {
    const { ring, audience, boot, owners } = this.#options;
    try {
      const { statusCode, body } = await this.#post(
        owner,
        this.#seal(owner, id, 'retry', text),
        signal,
      );
      if (statusCode !== 200) {
        body.on('error', () => {}).destroy();
        const problem = `it responded with HTTP ${statusCode}`;
        // 421: another process has this address now.
        retry.giveUp({ type: statusCode === 421 ? 'gone' : 'silent', problem });
        return statusCode === 421 ? 'refused' : null;
      }
      for await (const sealed of readLines(body, maxSealedLength(MAX_PIECE_BYTES))) {
        const message = openMessage(ring, { audience, key: boot }, sealed, MAX_PIECE_BYTES);
        if (message?.id !== id || message.from !== owner.boot) {
          retry.giveUp({ type: 'silent', problem: 'it sent an invalid relay message' });
          return null;
        }
        owners.recordMessage(owner.boot);
        // While the client reads slowly, the connection holds back the owner.
        await retry.receive(message);
        if (retry.isOver) return null;
      }
      retry.giveUp({ type: 'silent', problem: 'its response ended early' });
      return 'broken';
    } catch (error) {
      const problem = error instanceof Error ? error.message : String(error);
      const code = error instanceof Error && 'code' in error ? error.code : '';
      retry.giveUp({ type: code === 'ECONNREFUSED' ? 'gone' : 'silent', problem });
      return BROKEN_CONNECTION.has(code) ? 'broken' : null;
    }
  }

  /** Sends a short message. @returns whether the owner took it */
  async #send(
    owner: ReachableOwner,
    id: string,
    kind: MessageKind,
    text: string,
  ): Promise<boolean> {
    const sealed = this.#seal(owner, id, kind, text);
    const sent = this.#post(owner, sealed, AbortSignal.timeout(SEND_TIMEOUT_MS)).then(
      ({ statusCode, body }) => {
        body.on('error', () => {}).destroy();
        // 421: the owner is gone, and needs no message.
        return statusCode === 204 || statusCode === 421;
      },
      () => false,
    );
    this.#sending.add(sent);
    try {
      return await sent;
    } finally {
      this.#sending.delete(sent);
    }
  }

  #seal({ boot: to }: ReachableOwner, id: string, kind: MessageKind, text: string): string {
    const { ring, audience, boot } = this.#options;
    return sealMessage(ring, { audience, key: to }, { kind, id, from: boot, number: 0, text });
  }

  #post({ address }: ReachableOwner, sealed: string, signal: AbortSignal) {
    return request(new URL(RELAY_PATH, address), {
      dispatcher: this.#agent,
      method: 'POST',
      headers: { 'content-type': 'application/jose' },
      body: sealed,
      signal,
    });
  }
}

const BROKEN_CONNECTION: ReadonlySet<unknown> = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE']);

export interface RelayServerOptions extends IncomingRetriesOptions {
  readonly ring: KeyRing<'relay'>;
  readonly audience: string;
  /** The name of this process in pointers. */
  readonly boot: string;
  readonly maxBodyBytes: number;
  /** How long an asker can read nothing while bytes wait for it, in ms. */
  readonly writeStallMs: number;
  /** Absent if homes are not found among peers. */
  readonly peers?: Pick<Peers, 'serve'>;
}

const RELAY_PATH = '/relay';
/** How long an asker that disconnected can take to say why, or to claim the call, in ms. */
const TAKEOVER_MS = 1_000;

/**
 * Creates the application for the listener that only replicas can reach. It serves the HTTP messages. Its server also
 * takes the upgrades to kept connections: see `takeArrivals`.
 */
export function createRelayServer(options: RelayServerOptions): FastifyInstance {
  const { ring, audience, boot } = options;
  const retries = new IncomingRetries(options);
  const maxBytes = maxRetryBytes(options.maxBodyBytes);
  const app = fastify({
    logger: false,
    schemaController: WITHOUT_SCHEMAS,
    bodyLimit: maxSealedLength(maxBytes),
    requestTimeout: 30_000,
    http: { headersTimeout: 10_000, connectionsCheckingInterval: 1_000 },
    forceCloseConnections: true,
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
  const { peers } = options;
  if (peers !== undefined) {
    app.post(PEERS_PATH, async ({ body }, reply) => {
      const served = await peers.serve(body instanceof Buffer ? body.toString('latin1') : '');
      return reply.code(served.status).send(served.reply);
    });
  }
  app.post(RELAY_PATH, async ({ body }, reply) => {
    const sealed = body instanceof Buffer ? body.toString('latin1') : '';
    const message = openMessage(ring, { audience, key: boot }, sealed, maxBytes);
    // Also for a replica that takes this process for the one that had the address before.
    if (message === null) return reply.code(421).send();
    if (message.kind !== 'retry') {
      retries.receive(message);
      return reply.code(204).send();
    }
    const { raw } = reply;
    reply.hijack();
    if (!raw.destroyed) await serve(message, raw, retries, options);
    return reply;
  });
  return app;
}

async function serve(
  message: RelayMessage,
  response: ServerResponse,
  retries: IncomingRetries,
  { ring, audience, boot, writeStallMs }: RelayServerOptions,
): Promise<void> {
  const { id, from } = message;
  // Before the call goes on: its first notification is written at once.
  response.writeHead(200, { 'content-type': 'application/jose' });
  response.flushHeaders();
  cutWhenStalled(response, writeStallMs);
  const channel = {
    showsDisconnect: true,
    send: (kind: RelayMessage['kind'], text: string, number: number) =>
      write(
        response,
        sealMessage(ring, { audience, key: from }, { kind, id, from: boot, number, text }),
      ),
  };
  await retries.serve(message, channel, (retry) => {
    // The asker may have given up: then its client retries, or another replica is about to claim the call.
    response.once('close', () => retry.disconnected(TAKEOVER_MS));
    retry.closed.addEventListener('abort', () => response.destroy());
  });
  if (!response.destroyed) response.end();
}

/** Resolves when the line has left this process, or never will. */
function write(response: ServerResponse, line: string): Promise<void> {
  return new Promise((resolve) => {
    if (response.destroyed) return resolve();
    const over = () => {
      response.off('close', over);
      resolve();
    };
    // Node.js keeps a line that is written after its socket was destroyed, and calls nobody back.
    response.on('close', over);
    response.write(`${line}\n`, over);
  });
}
