/**
 * The owner's side of a relay: takes the retries that landed on other replicas. It believes nothing of
 * what another replica has checked; the bridge opens the pointer again.
 */
import fastify, { type FastifyInstance } from 'fastify';
import type { RelayedRetry } from '../bridge/relay.ts';
import type { Clock } from '../clock.ts';
import type { OpenAnswers } from '../open-answers.ts';
import type { KeyRing } from '../seal/key-ring.ts';
import { LetterLeg } from './letter-leg.ts';
import { openLetter, sealedBytes, sealLetter } from './letter.ts';
import { readRelayRequest } from './relay-message.ts';

export interface RelayServerOptions {
  readonly ring: KeyRing<'relay'>;
  /** This process, as pointers name it. */
  readonly boot: string;
  readonly maxBodyBytes: number;
  readonly openAnswers: OpenAnswers;
  readonly clock: Clock;
  readonly retry: RelayedRetry;
}

export const RELAY_PATH = '/relay';
/** How long a replica that gave us up may take to claim the call. */
const TAKEOVER_MS = 1_000;

/** The relay's application, for a listener that only replicas can reach. */
export function createRelayServer(options: RelayServerOptions): FastifyInstance {
  const { ring, boot, clock, retry } = options;
  /** By the ids of their letters. */
  const serving = new Map<string, LetterLeg>();
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
    if (letter?.kind === 'closed') {
      serving.get(letter.id)?.close();
      return reply.code(204).send();
    }
    // Also what a replica gets that takes us for the process that had this address before.
    if (letter?.kind !== 'retry') return reply.code(421).send();
    const message = readRelayRequest(Buffer.from(letter.text, 'utf8'));
    if (message === null) return reply.code(400).send();
    const { raw } = reply;
    const write = async (text: string) => {
      const line = { kind: 'line', id: letter.id, from: boot, text } as const;
      // A sign of life says nothing, and can be forged for as long as a call may take at most.
      const written = text === '' ? '' : await sealLetter(ring, letter.from, line, clock);
      return !raw.destroyed && raw.write(`${written}\n`);
    };
    if (raw.destroyed) return reply.hijack();
    const leg = new LetterLeg(write, clock);
    serving.set(letter.id, leg);
    raw.once('close', () => {
      serving.delete(letter.id);
      // Perhaps we were taken for dead: then the call is about to be claimed elsewhere, and not over.
      leg.close(TAKEOVER_MS);
    });
    const served = await retry(message.route, message.request, leg);
    if (served === null) return reply.code(404).send();
    reply.hijack();
    options.openAnswers.add(raw);
    raw.writeHead(200, { 'content-type': 'application/jose' });
    leg.begin();
    try {
      await leg.finish(await served.answer);
      raw.end();
    } catch {
      // The other side notices that it ended early, and takes the next rung.
      leg.close();
      raw.destroy();
    }
    return reply;
  });
  return app;
}
