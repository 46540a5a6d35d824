/**
 * The relay for replicas that cannot reach each other: retries and answers go through mailboxes in the
 * store that they share. Slower than HTTP, and with the same meaning.
 */
import type { EdgeRequest, Leg } from '../../model/request.ts';
import { CLIENT_LEFT, type Relay, type RelayOutcome } from '../../model/relay.ts';
import { sleep } from '../../lib/clock.ts';
import type { KeyRing } from '../../seal/key-ring.ts';
import { randomId } from '../../lib/random-id.ts';
import type { PointerOwner } from '../../seal/pointer.ts';
import { AskedRetry } from './asked-retry.ts';
import type { HeardOwners } from './heard-owners.ts';
import { openLetter, sealLetter, type Letter, type LetterKind } from './sealed-message.ts';
import { wasNotSent, type Mailbox } from './redis-channel.ts';
import { BUSY_OWNER_SILENCE_MS } from './heartbeat.ts';
import { MAX_PIECE_BYTES } from './pieces.ts';
import { writeRelayRequest } from './messages.ts';
import { ServedRetries, type ServedRetriesOptions } from './served-retries.ts';
import type { ServedRetry } from './served-retry.ts';

export interface RedisRelayOptions extends ServedRetriesOptions {
  readonly ring: KeyRing<'relay'>;
  readonly mailbox: Pick<Mailbox, 'read' | 'post' | 'close' | 'isBehind'>;
  /** This process, as pointers name it. */
  readonly boot: string;
  /** The largest request, in bytes. */
  readonly maxBodyBytes: number;
  readonly maxAnswerBytes: number;
  readonly owners: HeardOwners;
}

/**
 * - `taken`: it is in the mailbox
 * - `full`: it is not; the mailbox is not emptied fast enough, or by nobody
 * - `unsent`: it is not; the store is away, which says nothing of who reads it
 * - `lost`: the store is away, and may have taken it before
 */
type Posted = 'taken' | 'full' | 'unsent' | 'lost';

/** Between two tries to post what must arrive, in ms. */
const POST_AGAIN_MS = 100;
/** How long what must arrive is tried to be posted, in ms. */
const POST_FOR_MS = 30_000;
/** How long the last words of this process may take, in ms. */
const LAST_WORDS_MS = 1_000;

interface Asked {
  readonly boot: string;
  readonly retry: AskedRetry;
}

export class RedisRelay {
  readonly #options: RedisRelayOptions;
  readonly #asked = new Map<string, Asked>();
  readonly #retries: ServedRetries;
  readonly #posting = new Set<Promise<Posted>>();
  #releasing = false;

  constructor(options: RedisRelayOptions) {
    this.#options = options;
    this.#retries = new ServedRetries(options);
    const { mailbox, ring, boot, maxBodyBytes } = options;
    const maxBytes = Math.max(maxBodyBytes, MAX_PIECE_BYTES);
    void mailbox.read((sealed) => {
      const letter = openLetter(ring, boot, sealed, maxBytes);
      if (letter !== null) this.#take(letter);
    });
  }

  /** The way from a route to the same route of the other replicas. */
  for(route: string): Relay {
    return {
      relay: (owner, request, leg) => this.#relay(route, owner, request, leg),
      release: () => this.#release(),
    };
  }

  async close(): Promise<void> {
    for (const { retry } of this.#asked.values()) {
      retry.end({ type: 'released', problem: 'this replica stops' });
    }
    this.#retries.close();
    const lastWords = Promise.all(this.#posting);
    await Promise.race([lastWords, sleep(this.#options.clock, LAST_WORDS_MS)]);
    this.#options.mailbox.close();
  }

  #release(): void {
    this.#releasing = true;
    for (const { retry } of this.#asked.values()) retry.release();
  }

  async #relay(
    route: string,
    owner: PointerOwner,
    request: EdgeRequest,
    leg: Leg,
  ): Promise<RelayOutcome> {
    if (leg.closed.aborted) return CLIENT_LEFT;
    const { clock, mailbox, owners, maxAnswerBytes } = this.#options;
    const id = randomId();
    const post = (kind: LetterKind, text = '') =>
      this.#post(owner.boot, { kind, id, number: 0, text });
    const retry = new AskedRetry(leg, {
      clock,
      maxLineLength: maxAnswerBytes,
      givesSigns: true,
      busySilenceMs: BUSY_OWNER_SILENCE_MS.redis,
      maxPauseMs: 0,
      say: async (kind, text) => (await post(kind, text)) === 'taken',
      heardAgoMs: () => owners.heardAgoMs(owner.boot),
      isBehind: () => mailbox.isBehind,
      over: () => void this.#asked.delete(id),
    });
    owners.asked(owner.boot);
    this.#asked.set(id, { boot: owner.boot, retry });
    if (this.#releasing) retry.release();
    const fate = await post('retry', writeRelayRequest({ route, request }).toString('utf8'));
    // What was posted all the same is void: nothing confirms it.
    if (fate !== 'taken') {
      retry.giveUp({ type: 'unreachable', problem: 'the store took no letter for it' });
    }
    const relayed = await retry.relayed;
    if (relayed.type !== 'silent' || owners.mayLive(owner.boot)) return relayed;
    return { type: 'gone', problem: relayed.problem };
  }

  #take(letter: Letter): void {
    const asked = this.#asked.get(letter.id);
    if (asked !== undefined) {
      if (asked.boot !== letter.from) return;
      this.#options.owners.heard(letter.from);
      void asked.retry.hear(letter);
    } else if (letter.kind === 'retry') {
      void this.#serve(letter);
    } else {
      this.#retries.hear(letter);
    }
  }

  async #serve(letter: Letter): Promise<void> {
    const { id, from } = letter;
    const { mailbox } = this.#options;
    let served: ServedRetry | null = null;
    const say = async (kind: LetterKind, text: string, number: number): Promise<void> => {
      const isPosted = await this.#postSurely(from, { kind, id, number, text }, () => served);
      if (!isPosted) throw new Error('nobody reads the mailbox');
    };
    const way = { showsEnd: false, say, isBehind: () => mailbox.isBehind };
    await this.#retries.serve(letter, way, (begun) => (served = begun));
  }

  /** False when nobody empties the mailbox. What is said again anyway is tried once. */
  async #postSurely(
    to: string,
    letter: Omit<Letter, 'from'>,
    served: () => ServedRetry | null,
  ): Promise<boolean> {
    const { clock } = this.#options;
    const mustArrive = letter.kind === 'piece' || letter.kind === 'unknown';
    const untilMs = clock.elapsed() + POST_FOR_MS;
    for (;;) {
      const posted = await this.#post(to, letter);
      if (posted === 'taken') return true;
      // While letters are lost, none can come either.
      if (posted !== 'full') served()?.seen();
      if (!mustArrive || served()?.closed.aborted === true) return true;
      if (clock.elapsed() >= untilMs) return posted !== 'full';
      await sleep(clock, POST_AGAIN_MS, served()?.closed);
    }
  }

  async #post(to: string, { kind, id, number, text }: Omit<Letter, 'from'>): Promise<Posted> {
    const posting = this.#posted(to, { kind, id, number, text });
    this.#posting.add(posting);
    try {
      return await posting;
    } finally {
      this.#posting.delete(posting);
    }
  }

  async #posted(to: string, letter: Omit<Letter, 'from'>): Promise<Posted> {
    const { ring, mailbox, boot } = this.#options;
    try {
      const sealed = sealLetter(ring, to, { ...letter, from: boot });
      return (await mailbox.post(to, sealed)) ? 'taken' : 'full';
    } catch (error) {
      return wasNotSent(error) ? 'unsent' : 'lost';
    }
  }
}
