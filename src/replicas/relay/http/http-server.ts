/**
 * The owner's side of the relay over HTTP: takes retries that reached other replicas. It trusts none of their
 * checks; `calls` opens the pointer again.
 */
import type { ServerResponse } from 'node:http';
import fastify, { type FastifyInstance } from 'fastify';
import { cutWhenStalled } from '../../../lib/responses.ts';
import type { KeyRing } from '../../../seal/key-ring.ts';
import { IncomingRetries, type IncomingRetriesOptions } from '../incoming-retry.ts';
import { maxSealedLength, openMessage, sealMessage, type RelayMessage } from '../messages.ts';

export interface RelayServerOptions extends IncomingRetriesOptions {
  readonly ring: KeyRing<'relay'>;
  /** The name of this process in pointers. */
  readonly boot: string;
  readonly maxBodyBytes: number;
  /** How long an asker can read nothing while bytes wait for it, in ms. */
  readonly writeStallMs: number;
}

export const RELAY_PATH = '/relay';
/** How long an asker that disconnected can take to say why, or to claim the call, in ms. */
const TAKEOVER_MS = 1_000;

/** Creates the application for the listener that only replicas can reach. */
export function createRelayServer(options: RelayServerOptions): FastifyInstance {
  const { ring, boot } = options;
  const retries = new IncomingRetries(options);
  const app = fastify({
    logger: false,
    bodyLimit: maxSealedLength(options.maxBodyBytes),
    requestTimeout: 30_000,
    http: { headersTimeout: 10_000, connectionsCheckingInterval: 1_000 },
    forceCloseConnections: true,
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
  app.post(RELAY_PATH, async ({ body }, reply) => {
    const sealed = body instanceof Buffer ? body.toString('latin1') : '';
    const message = openMessage(ring, boot, sealed, options.maxBodyBytes);
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
  { ring, boot, writeStallMs }: RelayServerOptions,
): Promise<void> {
  const { id, from } = message;
  // Before the call goes on: its first notification is written at once.
  response.writeHead(200, { 'content-type': 'application/jose' });
  response.flushHeaders();
  cutWhenStalled(response, writeStallMs);
  const channel = {
    showsDisconnect: true,
    send: (kind: RelayMessage['kind'], text: string, number: number) =>
      write(response, sealMessage(ring, from, { kind, id, from: boot, number, text })),
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
    if (response.destroyed) resolve();
    else response.write(`${line}\n`, () => resolve());
  });
}
