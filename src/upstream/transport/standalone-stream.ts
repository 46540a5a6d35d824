/**
 * The stream of Streamable HTTP for messages that belong to no request. There is one at a time. When it
 * breaks it is resumed, and callers that need it wait for that attempt.
 */
import { sleep, type Clock } from '../../lib/clock.ts';
import { asUpstreamFailure } from '../failure.ts';
import { ResumableStream, type StreamContext, type StreamOwner } from './resumable-stream.ts';
import type { CallerHeaders, TransportListener } from './transport.ts';

const OPEN_TIMEOUT_MS = 2_000;

/** An attempt to open the stream, or to resume it. */
interface OpeningAttempt {
  readonly opened: PromiseWithResolvers<boolean>;
  /** Resolves with false after the first GET that failed. */
  readonly refused: PromiseWithResolvers<boolean>;
}

export class StandaloneStream implements StreamOwner {
  readonly #context: StreamContext;
  readonly #listener: TransportListener;
  readonly #clock: Clock;
  readonly #closing = new AbortController();
  #stream: ResumableStream | null = null;
  /** `null` while the stream is open, and while nothing tries to open it. */
  #attempt: OpeningAttempt | null = null;

  constructor(context: StreamContext, listener: TransportListener) {
    this.#context = context;
    this.#listener = listener;
    this.#clock = context.clock;
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
    const tooLate = sleep(this.#clock, OPEN_TIMEOUT_MS, signal).then(() => false);
    const refused = wait === 'once' ? [attempt.refused.promise] : [];
    try {
      return await Promise.race([attempt.opened.promise, tooLate, ...refused]);
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
    const onOpen = () => {
      this.#succeed(attempt);
      this.#listener.standaloneResumed(stream.lastEventId !== undefined);
    };
    const onRefusal = () => attempt.refused.resolve(false);
    stream.resume({ onOpen, onRefusal }).catch((error: unknown) => {
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
    const onRefusal = () => attempt.refused.resolve(false);
    // Many servers offer no such stream, and say so with all kinds of errors.
    stream.resume({ firstWaitMs: 0, onOpen, onRefusal }).catch(() => this.#giveUp(attempt));
    return attempt;
  }

  #newAttempt(): OpeningAttempt {
    this.#attempt = { opened: Promise.withResolvers(), refused: Promise.withResolvers() };
    return this.#attempt;
  }

  #succeed({ opened }: OpeningAttempt): void {
    this.#attempt = null;
    opened.resolve(true);
  }

  #giveUp({ opened }: OpeningAttempt): void {
    this.#attempt = null;
    this.#stream = null;
    opened.resolve(false);
  }
}
