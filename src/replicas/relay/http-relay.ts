/**
 * A retry's way to the replica that holds its call over HTTP: one request, whose answer streams back, and
 * a short one for whatever else is to be said. A connection that breaks is tried once more: an owner that
 * lives has the call still, and the port of a dead one is closed.
 */
import { Agent, request } from 'undici';
import type { EdgeRequest, Leg } from '../../model/request.ts';
import { CLIENT_LEFT, type Relay, type RelayOutcome } from '../../model/relay.ts';
import { sleep, type Clock } from '../../lib/clock.ts';
import { randomId } from '../../lib/random-id.ts';
import type { KeyRing } from '../../seal/key-ring.ts';
import type { PointerOwner } from '../../seal/pointer.ts';
import { AskedRetry } from './asked-retry.ts';
import type { HeardOwners } from './heard-owners.ts';
import { openLetter, sealedBytes, sealLetter, type LetterKind } from './sealed-message.ts';
import { BUSY_OWNER_SILENCE_MS, UNREAD_ANSWER_MS } from './heartbeat.ts';
import { MAX_PIECE_BYTES } from './pieces.ts';
import { writeRelayRequest } from './messages.ts';
import { RELAY_PATH } from './server.ts';
import { sealedLines } from './sealed-lines.ts';

export interface RelayClientOptions {
  readonly ring: KeyRing<'relay'>;
  /** This process, as pointers name it. */
  readonly boot: string;
  readonly route: string;
  readonly maxAnswerBytes: number;
  readonly owners: HeardOwners;
  readonly clock: Clock;
}

type Owner = PointerOwner & { readonly address: string };

/** One retry that the owner is asked for, and whose client waits here. */
interface Conversation {
  readonly id: string;
  readonly text: string;
  readonly asked: AskedRetry;
}

const CONNECT_MS = 1_000;
/** How long the owner may take to hear something short, and this process to say the last of it. */
const SAY_MS = 1_000;

export class RelayClient implements Relay {
  readonly #options: RelayClientOptions;
  readonly #agent = new Agent({
    connect: { timeout: CONNECT_MS },
    headersTimeout: 0,
    bodyTimeout: 0,
    pipelining: 1,
  });
  readonly #asked = new Set<AskedRetry>();
  readonly #saying = new Set<Promise<unknown>>();
  #releasing = false;

  constructor(options: RelayClientOptions) {
    this.#options = options;
  }

  async relay(owner: PointerOwner, edgeRequest: EdgeRequest, leg: Leg): Promise<RelayOutcome> {
    const { owners, route } = this.#options;
    const { address, boot } = owner;
    if (address === undefined) return { type: 'gone', problem: 'it has no address' };
    const text = writeRelayRequest({ route, request: edgeRequest }).toString('utf8');
    owners.asked(boot);
    const first = await this.#ask({ ...owner, address }, text, leg);
    const { relayed } = first.isBroken ? await this.#ask({ ...owner, address }, text, leg) : first;
    if (relayed.type !== 'silent' || owners.mayLive(boot)) return relayed;
    return { type: 'gone', problem: relayed.problem };
  }

  release(): void {
    this.#releasing = true;
    for (const asked of this.#asked) asked.release();
  }

  async close(): Promise<void> {
    await Promise.race([Promise.all(this.#saying), sleep(this.#options.clock, SAY_MS)]);
    await this.#agent.destroy();
  }

  async #ask(
    owner: Owner,
    text: string,
    leg: Leg,
  ): Promise<{ relayed: RelayOutcome; isBroken: boolean }> {
    if (leg.closed.aborted) return { relayed: CLIENT_LEFT, isBroken: false };
    const { owners, clock, maxAnswerBytes } = this.#options;
    const id = randomId();
    const connection = new AbortController();
    const asked = new AskedRetry(leg, {
      clock,
      maxLineLength: maxAnswerBytes,
      givesSigns: false,
      busySilenceMs: BUSY_OWNER_SILENCE_MS.http,
      // Half of what the owner takes for our death.
      maxPauseMs: UNREAD_ANSWER_MS / 2,
      say: (kind, words = '') => this.#say(owner, id, kind, words),
      heardAgoMs: () => owners.heardAgoMs(owner.boot),
      over: () => void this.#asked.delete(asked),
    });
    this.#asked.add(asked);
    if (this.#releasing) asked.release();
    const conversation = this.#converse(owner, { id, text, asked }, connection.signal);
    const relayed = await asked.relayed;
    connection.abort();
    return { relayed, isBroken: relayed.type === 'silent' && (await conversation) === 'broken' };
  }

  /** Hears what the owner answers, to its end. */
  async #converse(
    owner: Owner,
    { id, text, asked }: Conversation,
    signal: AbortSignal,
  ): Promise<'broken' | 'over'> {
    const { ring, boot, owners } = this.#options;
    try {
      const { statusCode, body } = await this.#post(owner, id, 'retry', text, signal);
      if (statusCode !== 200) {
        body.on('error', () => {}).destroy();
        const problem = `it answered with HTTP ${statusCode}`;
        // 421: another process has this address now.
        asked.giveUp({ type: statusCode === 421 ? 'gone' : 'silent', problem });
        return 'over';
      }
      for await (const sealed of sealedLines(body, sealedBytes(MAX_PIECE_BYTES))) {
        const letter = openLetter(ring, boot, sealed, MAX_PIECE_BYTES);
        if (letter?.id !== id || letter.from !== owner.boot) {
          asked.giveUp({ type: 'silent', problem: 'it sent an invalid relay message' });
          return 'over';
        }
        owners.heard(owner.boot);
        // While the client is behind, the owner is held back by its own connection.
        await asked.hear(letter);
        if (asked.isOver) return 'over';
      }
      asked.giveUp({ type: 'silent', problem: 'its answer ended early' });
      return 'broken';
    } catch (error) {
      const problem = error instanceof Error ? error.message : String(error);
      const code = error instanceof Error && 'code' in error ? error.code : '';
      asked.giveUp({ type: code === 'ECONNREFUSED' ? 'gone' : 'silent', problem });
      return BROKEN.has(code) ? 'broken' : 'over';
    }
  }

  /** True when the owner has taken it. */
  async #say(owner: Owner, id: string, kind: LetterKind, text: string): Promise<boolean> {
    const said = this.#post(owner, id, kind, text, AbortSignal.timeout(SAY_MS)).then(
      ({ statusCode, body }) => {
        body.on('error', () => {}).destroy();
        // Another process has nothing to keep.
        return statusCode === 204 || statusCode === 421;
      },
      () => false,
    );
    this.#saying.add(said);
    try {
      return await said;
    } finally {
      this.#saying.delete(said);
    }
  }

  async #post(owner: Owner, id: string, kind: LetterKind, text: string, signal: AbortSignal) {
    const { ring, boot } = this.#options;
    const letter = { kind, id, from: boot, number: 0, text };
    return request(new URL(RELAY_PATH, owner.address), {
      dispatcher: this.#agent,
      method: 'POST',
      headers: { 'content-type': 'application/jose' },
      body: sealLetter(ring, owner.boot, letter),
      signal,
    });
  }
}

const BROKEN: ReadonlySet<unknown> = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE']);
