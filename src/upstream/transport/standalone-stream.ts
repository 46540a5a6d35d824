/**
 * The stream of Streamable HTTP for messages that belong to no request. There is one at a time. When it
 * breaks it is resumed, and callers that need it wait for that attempt.
 */
import { sleep, type Clock } from '../../lib/clock.ts';
import { once } from '../../lib/once.ts';
import type { HeldHeads } from '../discovery/held-heads.ts';
import { asUpstreamFailure } from '../failure.ts';
import { ResumableStream, type StreamContext, type StreamOwner } from './resumable-stream.ts';
import type { CallerHeaders, TransportListener } from './transport.ts';

/** How long an attempt is waited for, in ms. */
const OPEN_TIMEOUT_MS = 2_000;

/** An attempt to open the stream, or to resume it. */
interface OpeningAttempt {
  readonly opened: PromiseWithResolvers<boolean>;
  /** Resolves with false after the first GET that failed. */
  readonly refused: PromiseWithResolvers<boolean>;
  /** Resolves with false when the server has taken a GET, and lets the head of its response wait. */
  readonly held: PromiseWithResolvers<boolean>;
  isHeld: boolean;
  readonly startedAtMs: number;
}

export class StandaloneStream implements StreamOwner {
  readonly #context: StreamContext;
  readonly #listener: TransportListener;
  readonly #heldHeads: HeldHeads;
  readonly #clock: Clock;
  readonly #closing = new AbortController();
  #stream: ResumableStream | null = null;
  /** `null` while the stream is open, and while nothing tries to open it. */
  #attempt: OpeningAttempt | null = null;

  constructor(context: StreamContext, listener: TransportListener, heldHeads: HeldHeads) {
    this.#context = context;
    this.#listener = listener;
    this.#heldHeads = heldHeads;
    this.#clock = context.clock;
  }

  /** See `Transport.standaloneHeld`. */
  get held(): boolean {
    return this.#attempt?.isHeld === true;
  }

  /** See `Transport.openStandaloneStream`. */
  open(headers: CallerHeaders, wait?: 'once'): boolean | Promise<boolean> {
    if (this.#closing.signal.aborted) return false;
    const attempt = this.#stream === null ? this.#begin(headers) : this.#attempt;
    if (this.#stream !== null) this.#stream.headers = headers;
    return attempt === null || this.#opened(attempt, wait);
  }

  async #opened(attempt: OpeningAttempt, wait?: 'once'): Promise<boolean> {
    const late = new AbortController();
    const signal = AbortSignal.any([late.signal, this.#closing.signal]);
    const waitMs = attempt.isHeld ? this.#heldHeads.patienceMs : OPEN_TIMEOUT_MS;
    const tooLate = sleep(this.#clock, waitMs, signal).then(() => false);
    const held = attempt.isHeld ? [] : [attempt.held.promise];
    const refused = wait === 'once' ? [attempt.refused.promise] : [];
    try {
      return await Promise.race([attempt.opened.promise, tooLate, ...held, ...refused]);
    } finally {
      late.abort();
    }
  }

  /** Closes the stream, or stops opening it. */
  close(): void {
    this.#closing.abort();
    this.#stream?.abort();
  }

  disconnected(stream: ResumableStream): void {
    const attempt = this.#newAttempt();
    const resumed = once(() => this.#listener.standaloneResumed(stream.lastEventId !== undefined));
    const onOpen = () => {
      this.#succeed(attempt);
      resumed();
    };
    const onHeld = () => {
      this.#hold(attempt);
      resumed();
    };
    stream.resume({ ...this.#waiting(attempt), onOpen, onHeld }).catch((error: unknown) => {
      this.#giveUp(attempt);
      if (!stream.finished) this.#listener.standaloneLost(asUpstreamFailure(error, false));
    });
  }

  /** The stream begins with a GET, so neither this nor `notTaken` is called. */
  posted(): 'none' {
    return 'none';
  }

  notTaken(): void {}

  #begin(headers: CallerHeaders): OpeningAttempt {
    const stream = new ResumableStream({ stream: 'standalone' }, headers, this.#context, this);
    this.#stream = stream;
    const attempt = this.#newAttempt();
    const onOpen = () => {
      this.#succeed(attempt);
      this.#listener.standaloneOpened();
    };
    const onHeld = () => {
      // The connection of a GET before has ended without a response.
      if (attempt.isHeld) this.#listener.standaloneResumed(false);
      this.#hold(attempt);
    };
    // Many servers offer no such stream, and say so with all kinds of errors.
    const options = { ...this.#waiting(attempt), firstWaitMs: 0, onOpen, onHeld };
    stream.resume(options).catch((error: unknown) => {
      const wasHeld = attempt.isHeld;
      this.#giveUp(attempt);
      if (wasHeld && !stream.finished)
        this.#listener.standaloneRefused(asUpstreamFailure(error, false));
    });
    return attempt;
  }

  #newAttempt(): OpeningAttempt {
    this.#attempt = {
      opened: Promise.withResolvers(),
      refused: Promise.withResolvers(),
      held: Promise.withResolvers(),
      isHeld: false,
      startedAtMs: this.#clock.elapsed(),
    };
    return this.#attempt;
  }

  #waiting({ refused }: OpeningAttempt) {
    const onRefusal = () => refused.resolve(false);
    return { heldAfterMs: this.#heldHeads.patienceMs, onRefusal };
  }

  #hold(attempt: OpeningAttempt): void {
    attempt.isHeld = true;
    this.#heldHeads.held();
    attempt.held.resolve(false);
  }

  #succeed({ opened, startedAtMs }: OpeningAttempt): void {
    this.#attempt = null;
    this.#heldHeads.opened(this.#clock.elapsed() - startedAtMs);
    opened.resolve(true);
  }

  #giveUp({ opened }: OpeningAttempt): void {
    this.#attempt = null;
    this.#stream = null;
    opened.resolve(false);
  }
}
