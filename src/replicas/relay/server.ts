/**
 * The owner's side of a relay: takes the retries that landed on other replicas. It believes nothing of
 * what another replica has checked; the bridge opens the pointer again.
 */
import type { ServerResponse } from 'node:http';
import fastify, { type FastifyInstance } from 'fastify';
import type { Clock } from '../../lib/clock.ts';
import { cutWhenStalled } from '../../lib/stalled-response.ts';
import type { KeyRing } from '../../seal/key-ring.ts';
import { LetterLeg } from './remote-leg.ts';
import { openLetter, sealedBytes, sealLetter } from './sealed-message.ts';
import { ServedRetries, type ServedRetriesOptions } from './served-retries.ts';

export interface RelayServerOptions extends ServedRetriesOptions {
  readonly ring: KeyRing<'relay'>;
  /** This process, as pointers name it. */
  readonly boot: string;
  readonly maxBodyBytes: number;
  /** How long bytes may wait for a replica that takes none of them, in ms. */
  readonly writeStallMs: number;
  readonly clock: Clock;
}

export const RELAY_PATH = '/relay';
/** The answer to a retry that was not written just now, by the clock of this replica. */
export const UNTIMELY_STATUS = 412;
/** How long a replica that gave us up may take to claim the call. */
const TAKEOVER_MS = 1_000;

/** The relay's application, for a listener that only replicas can reach. */
export function createRelayServer(options: RelayServerOptions): FastifyInstance {
  const { ring, boot, clock } = options;
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
    const letter = await openLetter(ring, boot, sealed, { clock, maxBytes: options.maxBodyBytes });
    // With the time in its `Date` header, by which the other replica sees how far the clocks differ.
    if (letter === 'untimely') return reply.code(UNTIMELY_STATUS).send();
    if (letter?.kind === 'closed') {
      retries.left(letter.id);
      return reply.code(204).send();
    }
    // Also what a replica gets that takes us for the process that had this address before.
    if (letter?.kind !== 'retry') return reply.code(421).send();
    const { raw } = reply;
    if (raw.destroyed) return reply.hijack();
    const { id, from } = letter;
    const leg = new LetterLeg(async (text) => {
      const line = { kind: 'line', id, from: boot, text } as const;
      // A sign of life says nothing, and can be forged for as long as a call may take at most.
      await write(raw, text === '' ? '' : await sealLetter(ring, from, line, clock));
    }, clock);
    // Perhaps we were taken for dead: then the call is about to be claimed elsewhere, and not over.
    raw.once('close', () => leg.close(TAKEOVER_MS));
    // Also when we are at fault: the other side notices that it ended early, and takes the next rung.
    leg.closed.addEventListener('abort', () => raw.destroy());
    cutWhenStalled(raw, options.writeStallMs);
    const isHere = await retries.serve(letter, leg, () => {
      reply.hijack();
      raw.writeHead(200, { 'content-type': 'application/jose' });
    });
    if (!isHere) return reply.code(404).send();
    if (!raw.destroyed) raw.end();
    return reply.hijack();
  });
  return app;
}

/** Resolves when the line has left this process, or never will. */
function write(response: ServerResponse, line: string): Promise<void> {
  return new Promise((resolve) => {
    if (response.destroyed) resolve();
    else response.write(`${line}\n`, () => resolve());
  });
}
