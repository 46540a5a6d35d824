/**
 * The relay for replicas that cannot reach each other: retries and answers go through mailboxes in the
 * store that they share. Slower than HTTP, and with the same signs of life.
 */
import type { EdgeRequest, Leg } from '../bridge/leg.ts';
import { CLIENT_LEFT, type Relay, type Relayed, type RelayedRetry } from '../bridge/relay.ts';
import type { Clock } from '../clock.ts';
import type { OpenAnswers } from '../open-answers.ts';
import type { KeyRing } from '../seal/key-ring.ts';
import { randomId } from '../random-id.ts';
import type { PointerOwner } from '../seal/pointer.ts';
import { LetterLeg } from './letter-leg.ts';
import { openLetter, sealLetter, type Letter, type LetterKind } from './letter.ts';
import type { Mailbox } from './mailbox.ts';
import { readRelayLine, readRelayRequest, writeRelayRequest } from './relay-message.ts';
import { watchForSilence } from './signs-of-life.ts';

export interface RedisRelayOptions {
  readonly ring: KeyRing<'relay'>;
  readonly mailbox: Mailbox;
  /** This process, as pointers name it. */
  readonly boot: string;
  /** The largest message, in bytes. */
  readonly maxBytes: number;
  readonly openAnswers: OpenAnswers;
  readonly clock: Clock;
  readonly retry: RelayedRetry;
}

/** A retry of ours that another replica is asked to serve. */
interface Asked {
  readonly leg: Leg;
  seen(): void;
  settle(relayed: Relayed): void;
}

export class RedisRelay {
  readonly #options: RedisRelayOptions;
  readonly #asked = new Map<string, Asked>();
  readonly #serving = new Map<string, LetterLeg>();

  constructor(options: RedisRelayOptions) {
    this.#options = options;
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
    for (const leg of this.#serving.values()) leg.close();
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
    const relayed = this.#ask(id, leg);
    const posted = this.#post(owner.boot, 'retry', id, text);
    const onClosed = () => {
      this.#asked.get(id)?.settle(CLIENT_LEFT);
      // Letters to one mailbox are read in the order of their posting.
      void posted.then(() => this.#post(owner.boot, 'closed', id, ''));
    };
    leg.closed.addEventListener('abort', onClosed);
    try {
      if (!(await posted)) {
        const problem = 'the store took no letter for it';
        this.#asked.get(id)?.settle({ type: 'unreachable', problem });
      }
      return await relayed;
    } finally {
      leg.closed.removeEventListener('abort', onClosed);
    }
  }

  #ask(id: string, leg: Leg): Promise<Relayed> {
    const { clock } = this.#options;
    return new Promise((resolve) => {
      const watch = watchForSilence(clock, () => {
        asked.settle({ type: 'silent', problem: 'no sign of life' });
      });
      const asked: Asked = {
        leg,
        seen: watch.seen,
        settle: (relayed) => {
          watch.stop();
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
        this.#serving.get(letter.id)?.close();
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
    if (text === '') return;
    const line = readRelayLine(text);
    if (line === null) {
      asked.settle({ type: 'silent', problem: 'a line of its answer is not understood' });
    } else if (line.type === 'answer') {
      asked.settle({ type: 'answered', answer: line.answer });
    } else {
      asked.leg.notify(line.method, line.params);
    }
  }

  async #serve({ id, from, text }: Letter): Promise<void> {
    const { retry, openAnswers, clock } = this.#options;
    const message = readRelayRequest(Buffer.from(text, 'utf8'));
    if (message === null) return void this.#post(from, 'unknown', id, '');
    const answered = openAnswers.open();
    const leg = new LetterLeg((line) => this.#post(from, 'line', id, line), clock);
    this.#serving.set(id, leg);
    try {
      const served = await retry(message.route, message.request, leg);
      if (served === null) {
        leg.close();
        await this.#post(from, 'unknown', id, '');
        return;
      }
      leg.begin();
      await leg.finish(await served.answer);
    } catch {
      // The other side notices the silence, and takes the next rung.
      leg.close();
    } finally {
      this.#serving.delete(id);
      answered();
    }
  }

  /** False when the letter could not be delivered, for whatever reason. */
  async #post(to: string, kind: LetterKind, id: string, text: string): Promise<boolean> {
    const { ring, mailbox, boot, clock } = this.#options;
    try {
      return await mailbox.post(
        to,
        await sealLetter(ring, to, { kind, id, from: boot, text }, clock),
      );
    } catch {
      return false;
    }
  }
}
