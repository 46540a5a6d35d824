/**
 * The relay to replicas of the builds before 0.1.0, which send letters: one sealed request, whose response streams
 * back. Such an owner acts at once, without a confirmation.
 */
import type { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import { z } from 'zod';
import type { Clock } from '../../../lib/clock.ts';
import { randomId } from '../../../lib/crypto.ts';
import { CLIENT_LEFT, type RelayOutcome } from '../../../model/relay.ts';
import type { CallReply, Leg } from '../../../model/request.ts';
import { parseJson } from '../../../protocol/json.ts';
import { openBytes, sealBytes } from '../../../seal/envelope.ts';
import type { KeyRing } from '../../../seal/key-ring.ts';
import { readLines, maxSealedLength, readLine } from '../messages.ts';
import { OWNER_TIMEOUT_MS, startWatchdog } from '../liveness.ts';

export interface LetterOptions {
  readonly ring: KeyRing<'relay'>;
  /** The name of this process in pointers. */
  readonly boot: string;
  /** The name of the owner. */
  readonly to: string;
  readonly maxReplyBytes: number;
  readonly clock: Clock;
  /** Posts a sealed letter to the owner. */
  post(sealed: string, signal: AbortSignal): Promise<Dispatcher.ResponseData>;
}

/** How long a letter is valid, in ms. */
const LIFETIME_MS = 30_000;

const letter = z.strictObject({
  v: z.literal(1),
  to: z.string(),
  exp: z.number(),
  kind: z.enum(['retry', 'line', 'closed']),
  id: z.string(),
  from: z.string(),
  text: z.string(),
});

/** Relays a retry. Never throws. @param text the retry, see `writeRequest` */
export async function relayInLetters(
  text: string,
  leg: Leg,
  options: LetterOptions,
): Promise<RelayOutcome> {
  const { clock, post } = options;
  const id = randomId();
  const connection = new AbortController();
  const { signal } = connection;
  let silent = false;
  const watchdog = startWatchdog(clock, OWNER_TIMEOUT_MS, () => {
    silent = true;
    connection.abort();
  });
  const onClosed = () => {
    const told = post(seal(options, 'closed', id), AbortSignal.timeout(OWNER_TIMEOUT_MS));
    told.then(({ body }) => body.on('error', () => {}).destroy()).catch(() => {});
    connection.abort();
  };
  leg.closed.addEventListener('abort', onClosed);
  if (leg.closed.aborted) connection.abort();
  try {
    const { statusCode, body } = await post(seal(options, 'retry', id, text), signal);
    if (statusCode === 200) {
      const reply = await readReply(body, id, leg, options, () => watchdog.reset());
      if (reply !== null) return { type: 'replied', reply };
      return { type: 'silent', problem: 'it sent an invalid relay message, or no reply' };
    }
    body.on('error', () => {}).destroy();
    const problem = `it responded with HTTP ${statusCode}`;
    if (statusCode === 404) return { type: 'unknown', problem };
    // 421: another process has this address now.
    return { type: statusCode === 421 ? 'gone' : 'silent', problem };
  } catch (error) {
    if (leg.closed.aborted) return CLIENT_LEFT;
    const problem = error instanceof Error ? error.message : String(error);
    return { type: 'silent', problem: silent ? 'no heartbeat' : problem };
  } finally {
    watchdog.stop();
    leg.closed.removeEventListener('abort', onClosed);
  }
}

/** Passes notifications on until the reply. @returns `null` if there is none */
async function readReply(
  body: Readable,
  id: string,
  leg: Leg,
  options: LetterOptions,
  onLine: () => void,
): Promise<CallReply | null> {
  // A letter can hold the whole reply. An empty line is a heartbeat.
  for await (const sealed of readLines(body, maxSealedLength(options.maxReplyBytes))) {
    onLine();
    const lines = sealed === '' ? '' : open(options, sealed, id);
    if (lines === null) return null;
    for (const written of lines.split('\n').slice(0, -1)) {
      const line = readLine(written);
      if (line === null) return null;
      if (line.type === 'answer') return line.answer;
      leg.notify(line.method, line.params);
    }
  }
  return null;
}

function seal(
  { ring, boot, to, clock }: LetterOptions,
  kind: 'retry' | 'closed',
  id: string,
  text = '',
): string {
  const exp = clock.now() + LIFETIME_MS;
  const written: z.infer<typeof letter> = { v: 1, to, exp, kind, id, from: boot, text };
  return sealBytes(ring, { audience: '', key: 'letters' }, Buffer.from(JSON.stringify(written)));
}

/** @returns the text of a letter of the owner for this retry, or `null` */
function open(
  { ring, boot, to, maxReplyBytes }: LetterOptions,
  sealed: string,
  id: string,
): string | null {
  try {
    const bytes = openBytes(
      ring,
      { audience: '', key: 'letters' },
      sealed,
      maxSealedLength(maxReplyBytes),
    );
    const read = letter.parse(parseJson(bytes.toString('utf8')));
    const isExpected =
      read.kind === 'line' && read.id === id && read.from === to && read.to === boot;
    return isExpected ? read.text : null;
  } catch {
    return null;
  }
}
