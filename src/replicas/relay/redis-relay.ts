/**
 * The relay for replicas that cannot reach each other: retries and answers go through mailboxes in the
 * store that they share. Slower than HTTP, and with the same signs of life.
 */
import type { EdgeRequest, Leg } from '../../model/request.ts';
import { CLIENT_LEFT, type Relay, type Relayed } from '../../model/relay.ts';
import type { Clock } from '../../lib/clock.ts';
import type { KeyRing } from '../../seal/key-ring.ts';
import { randomId } from '../../lib/random-id.ts';
import type { PointerOwner } from '../../seal/pointer.ts';
import { AskedRetry } from './asked-retry.ts';
import { LetterLeg } from './remote-leg.ts';
import { openLetter, sealLetter, type Letter, type LetterKind } from './sealed-message.ts';
import { wasNotSent, type Mailbox } from './redis-channel.ts';
import { writeRelayRequest } from './messages.ts';
import { ServedRetries, type ServedRetriesOptions } from './served-retries.ts';
import { ASKER_SILENCE_MS, watchForSilence, type SilenceWatch } from './heartbeat.ts';

export interface RedisRelayOptions extends ServedRetriesOptions {
  readonly ring: KeyRing<'relay'>;
  readonly mailbox: Pick<Mailbox, 'read' | 'post' | 'close'>;
  /** This process, as pointers name it. */
  readonly boot: string;
  /** The largest message, in bytes. */
  readonly maxBytes: number;
  readonly clock: Clock;
}

/**
 * - `taken`: it is in the mailbox
 * - `full`: it is not; nobody reads that mailbox
 * - `unsent`: it is not; the store is away, which says nothing of who reads it
 * - `lost`: the store is away, and may have taken it before
 */
type Posted = 'taken' | 'full' | 'unsent' | 'lost';

export class RedisRelay {
  readonly #options: RedisRelayOptions;
  readonly #asked = new Map<string, AskedRetry>();
  readonly #retries: ServedRetries;
  /** Whether those live whose retries are served, by the ids of their letters. */
  readonly #askers = new Map<string, SilenceWatch>();

  constructor(options: RedisRelayOptions) {
    this.#options = options;
    this.#retries = new ServedRetries(options);
    const { mailbox, ring, boot, maxBytes, clock } = options;
    void mailbox.read(async (sealed) => {
      const letter = await openLetter(ring, boot, sealed, { clock, maxBytes });
      if (letter !== null && letter !== 'untimely') this.#take(letter);
    });
  }

  /** The way from a route to the same route of the other replicas. */
  for(route: string): Relay {
    return { relay: (owner, request, leg) => this.#relay(route, owner, request, leg) };
  }

  close(): void {
    this.#options.mailbox.close();
    for (const asked of this.#asked.values()) {
      asked.end({ type: 'silent', problem: 'this replica stops' });
    }
    this.#retries.close();
  }

  async #relay(
    route: string,
    owner: PointerOwner,
    request: EdgeRequest,
    leg: Leg,
  ): Promise<Relayed> {
    if (leg.closed.aborted) return CLIENT_LEFT;
    const id = randomId();
    const post = (kind: LetterKind, text = '') => this.#post(owner.boot, kind, id, text);
    const asked = new AskedRetry(leg, {
      clock: this.#options.clock,
      sign: async () => !isAway(await post('waiting')),
      over: () => {
        this.#asked.delete(id);
        leg.closed.removeEventListener('abort', onClosed);
      },
    });
    this.#asked.set(id, asked);
    const posted = post('retry', writeRelayRequest({ route, request }).toString('utf8'));
    const onClosed = () => {
      asked.end(CLIENT_LEFT);
      // Letters to one mailbox are read in the order of their posting.
      void posted.then(() => post('closed'));
    };
    leg.closed.addEventListener('abort', onClosed);
    const unreachable = {
      type: 'unreachable',
      problem: 'the store took no letter for it',
    } as const;
    const fate = await posted;
    if (fate === 'lost') asked.giveUp(unreachable);
    else if (fate !== 'taken') asked.end(unreachable);
    return asked.relayed;
  }

  #take(letter: Letter): void {
    switch (letter.kind) {
      case 'retry':
        void this.#serve(letter);
        return;
      case 'closed':
        this.#retries.left(letter.id);
        return;
      case 'waiting':
        this.#askers.get(letter.id)?.seen();
        return;
      case 'unknown':
        this.#asked.get(letter.id)?.end({ type: 'unknown', problem: 'it does not have the call' });
        return;
      case 'line':
        this.#asked.get(letter.id)?.hear(letter.text);
    }
  }

  async #serve(letter: Letter): Promise<void> {
    const { id, from } = letter;
    const leg = new LetterLeg(async (line) => {
      const posted = await this.#post(from, 'line', id, line);
      if (posted === 'full') throw new Error('nobody reads the mailbox');
      // While letters are lost, none can come either.
      if (isAway(posted)) asker.seen();
    }, this.#options.clock);
    const asker = watchForSilence(this.#options.clock, ASKER_SILENCE_MS, () => leg.close());
    this.#askers.set(id, asker);
    const isHere = await this.#retries.serve(letter, leg, () => {});
    this.#askers.delete(id);
    asker.stop();
    if (!isHere) await this.#post(from, 'unknown', id, '');
  }

  async #post(to: string, kind: LetterKind, id: string, text: string): Promise<Posted> {
    const { ring, mailbox, boot, clock } = this.#options;
    try {
      const sealed = await sealLetter(ring, to, { kind, id, from: boot, text }, clock);
      return (await mailbox.post(to, sealed)) ? 'taken' : 'full';
    } catch (error) {
      return wasNotSent(error) ? 'unsent' : 'lost';
    }
  }
}

function isAway(posted: Posted): boolean {
  return posted === 'unsent' || posted === 'lost';
}
