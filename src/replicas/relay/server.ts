/**
 * The owner's side of a relay over HTTP: takes the retries that landed on other replicas. It believes
 * nothing of what another replica has checked; the bridge opens the pointer again.
 */
import type { ServerResponse } from 'node:http';
import fastify, { type FastifyInstance } from 'fastify';
import { cutWhenStalled } from '../../lib/stalled-response.ts';
import type { KeyRing } from '../../seal/key-ring.ts';
import { openLetter, sealedBytes, sealLetter, type Letter } from './sealed-message.ts';
import { ServedRetries, type ServedRetriesOptions } from './served-retries.ts';
import type { WayBack } from './served-retry.ts';

export interface RelayServerOptions extends ServedRetriesOptions {
  readonly ring: KeyRing<'relay'>;
  /** This process, as pointers name it. */
  readonly boot: string;
  readonly maxBodyBytes: number;
  /** How long bytes may wait for a replica that takes none of them, in ms. */
  readonly writeStallMs: number;
}

export const RELAY_PATH = '/relay';
/** How long a replica that gave us up may take to say so, or to claim the call. */
const TAKEOVER_MS = 1_000;

/** The relay's application, for a listener that only replicas can reach. */
export function createRelayServer(options: RelayServerOptions): FastifyInstance {
  const { ring, boot } = options;
  const retries = new ServedRetries(options);
  const app = fastify({
    logger: false,
    bodyLimit: sealedBytes(options.maxBodyBytes),
    requestTimeout: 30_000,
    http: { headersTimeout: 10_000, connectionsCheckingInterval: 1_000 },
    forceCloseConnections: true,
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
  app.post(RELAY_PATH, async ({ body }, reply) => {
    const sealed = body instanceof Buffer ? body.toString('latin1') : '';
    const letter = openLetter(ring, boot, sealed, options.maxBodyBytes);
    // Also what a replica gets that takes us for the process that had this address before.
    if (letter === null) return reply.code(421).send();
    if (letter.kind !== 'retry') {
      retries.hear(letter);
      return reply.code(204).send();
    }
    const { raw } = reply;
    reply.hijack();
    if (!raw.destroyed) await serve(letter, raw, retries, options);
    return reply;
  });
  return app;
}

async function serve(
  { id, from, ...retry }: Letter,
  response: ServerResponse,
  retries: ServedRetries,
  { ring, boot, writeStallMs }: RelayServerOptions,
): Promise<void> {
  response.writeHead(200, { 'content-type': 'application/jose' });
  response.flushHeaders();
  cutWhenStalled(response, writeStallMs);
  const say: WayBack['say'] = (kind, text, number) =>
    write(response, sealLetter(ring, from, { kind, id, from: boot, number, text }));
  await retries.serve({ id, from, ...retry }, { showsEnd: true, say }, (served) => {
    // Perhaps we were given up: then the client comes again, or the call is about to be claimed elsewhere.
    response.once('close', () => served.ended(TAKEOVER_MS));
    served.closed.addEventListener('abort', () => response.destroy());
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
