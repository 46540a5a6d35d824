/**
 * The relay for replicas that cannot reach each other: retries and answers go through mailboxes in the
 * store that they share. Slower than HTTP, and with the same signs of life.
 */
import type { EdgeRequest, Leg } from '../bridge/leg.ts';
import { CLIENT_LEFT, type Relay, type Relayed } from '../bridge/relay.ts';
import type { Clock } from '../clock.ts';
import type { KeyRing } from '../seal/key-ring.ts';
import { randomId } from '../random-id.ts';
import type { PointerOwner } from '../seal/pointer.ts';
import { LetterLeg } from './letter-leg.ts';
import { openLetter, sealLetter, type Letter, type LetterKind } from './letter.ts';
import type { Mailbox } from './mailbox.ts';
import { readRelayLines, writeRelayRequest } from './relay-message.ts';
import { ServedRetries, type ServedRetriesOptions } from './served-retries.ts';
import {
  ASKER_SILENCE_MS,
  giveSigns,
  OWNER_SILENCE_MS,
  watchForSilence,
  type SilenceWatch,
} from './signs-of-life.ts';

export interface RedisRelayOptions extends ServedRetriesOptions {
  readonly ring: KeyRing<'relay'>;
  readonly mailbox: Pick<Mailbox, 'read' | 'post' | 'close'>;
  /** This process, as pointers name it. */
  readonly boot: string;
  /** The largest message, in bytes. */
  readonly maxBytes: number;
  readonly clock: Clock;
}

/** A retry of ours that another replica is asked to serve. */
interface Asked {
  readonly leg: Leg;
  seen(): void;
  settle(relayed: Relayed): void;
}

/** `full`: it is not read; `lost`: the store is away, which says nothing of who reads it. */
type Posted = 'taken' | 'full' | 'lost';

export class RedisRelay {
  readonly #options: RedisRelayOptions;
  readonly #asked = new Map<string, Asked>();
  readonly #retries: ServedRetries;
  /** Whether those live whose retries are served, by the ids of their letters. */
  readonly #askers = new Map<string, SilenceWatch>();

  constructor(options: RedisRelayOptions) {
    this.#options = options;
    this.#retries = new ServedRetries(options);
    const { mailbox, ring, boot, maxBytes, clock } = options;
    void mailbox.read(async (sealed) => {
      const letter = await openLetter(ring, boot, sealed, { clock, maxBytes });
      if (letter !== null) this.#take(letter);
    });
  }

  /** The way from a route to the same route of the other replicas. */
  for(route: string): Relay {
    return { relay: (owner, request, leg) => this.#relay(route, owner, request, leg) };
  }

  close(): void {
    this.#options.mailbox.close();
    for (const { settle } of this.#asked.values()) {
      settle({ type: 'silent', problem: 'this replica stops' });
    }
    this.#retries.close();
  }

  async #relay(
    route: string,
    owner: PointerOwner,
    request: EdgeRequest,
    leg: Leg,
  ): Promise<Relayed> {
    const id = randomId();
    const text = writeRelayRequest({ route, request }).toString('utf8');
    if (leg.closed.aborted) return CLIENT_LEFT;
    const relayed = this.#ask(owner, id, leg);
    const posted = this.#post(owner.boot, 'retry', id, text);
    const onClosed = () => {
      this.#asked.get(id)?.settle(CLIENT_LEFT);
      // Letters to one mailbox are read in the order of their posting.
      void posted.then(() => this.#post(owner.boot, 'closed', id, ''));
    };
    leg.closed.addEventListener('abort', onClosed);
    try {
      if ((await posted) !== 'taken') {
        const problem = 'the store took no letter for it';
        this.#asked.get(id)?.settle({ type: 'unreachable', problem });
      }
      return await relayed;
    } finally {
      leg.closed.removeEventListener('abort', onClosed);
    }
  }

  #ask(owner: PointerOwner, id: string, leg: Leg): Promise<Relayed> {
    const { clock } = this.#options;
    return new Promise((resolve) => {
      const watch = watchForSilence(clock, OWNER_SILENCE_MS, () => {
        asked.settle({ type: 'silent', problem: 'no sign of life' });
      });
      const stopSigns = giveSigns(clock, () => void this.#post(owner.boot, 'waiting', id, ''));
      const asked: Asked = {
        leg,
        seen: watch.seen,
        settle: (relayed) => {
          watch.stop();
          stopSigns();
          this.#asked.delete(id);
          resolve(relayed);
        },
      };
      this.#asked.set(id, asked);
    });
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
        this.#asked
          .get(letter.id)
          ?.settle({ type: 'unknown', problem: 'it does not have the call' });
        return;
      case 'line':
        this.#hear(letter);
    }
  }

  #hear({ id, text }: Letter): void {
    const asked = this.#asked.get(id);
    if (asked === undefined) return;
    asked.seen();
    const lines = readRelayLines(text);
    if (lines === null) {
      asked.settle({ type: 'silent', problem: 'a line of its answer is not understood' });
    }
    for (const line of lines ?? []) {
      if (line.type === 'answer') asked.settle({ type: 'answered', answer: line.answer });
      else asked.leg.notify(line.method, line.params);
    }
  }

  async #serve(letter: Letter): Promise<void> {
    const { id, from } = letter;
    const leg = new LetterLeg(async (line) => {
      const posted = await this.#post(from, 'line', id, line);
      if (posted === 'full') throw new Error('nobody reads the mailbox');
      // While letters are lost, none can come either.
      if (posted === 'lost') asker.seen();
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
    } catch {
      return 'lost';
    }
  }
}
