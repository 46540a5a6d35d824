/**
 * The stream of Streamable HTTP on which a server sends what belongs to no request. There is one at a
 * time; when it breaks it is got back, and whoever needs it meanwhile waits for that attempt.
 */
import { sleep, type Clock } from '../../lib/clock.ts';
import type { HttpResponse } from '../http/client.ts';
import { ResumableStream, type StreamParts } from './resumable-stream.ts';
import type { CallerHeaders, TransportListener } from './transport.ts';
import { asUpstreamFailure } from '../failure.ts';

const OPEN_WAIT_MS = 2_000;

/** The tries to open the stream, or to get it back. */
interface Attempt {
  readonly opened: PromiseWithResolvers<boolean>;
  /** Resolves with false after the first try that failed. */
  readonly refused: PromiseWithResolvers<boolean>;
}

export class StandaloneStream {
  readonly #parts: StreamParts;
  readonly #listener: TransportListener;
  readonly #clock: Clock;
  readonly #closing = new AbortController();
  #stream: ResumableStream | null = null;
  /** `null` while the stream is open, and while nobody tries to open it. */
  #attempt: Attempt | null = null;

  constructor(parts: StreamParts, listener: TransportListener) {
    this.#parts = parts;
    this.#listener = listener;
    this.#clock = parts.clock;
  }

  /** See `Transport.openStandaloneStream`. */
  async open(headers: CallerHeaders, wait?: 'once'): Promise<boolean> {
    if (this.#closing.signal.aborted) return false;
    const attempt = this.#stream === null ? this.#begin(headers) : this.#attempt;
    if (this.#stream !== null) this.#stream.headers = headers;
    if (attempt === null) return true;
    const late = new AbortController();
    const signal = AbortSignal.any([late.signal, this.#closing.signal]);
    const tooLate = sleep(this.#clock, OPEN_WAIT_MS, signal).then(() => false);
    const refused = wait === 'once' ? [attempt.refused.promise] : [];
    try {
      return await Promise.race([attempt.opened.promise, tooLate, ...refused]);
    } finally {
      late.abort();
    }
  }

  /** Cuts the stream, or the attempt to open it. */
  leave(): void {
    this.#closing.abort();
    this.#stream?.abort();
  }

  #begin(headers: CallerHeaders): Attempt {
    const stream = new ResumableStream({ stream: 'standalone' }, headers, this.#parts);
    this.#stream = stream;
    const attempt = this.#try();
    stream
      .resume(0, () => attempt.refused.resolve(false))
      .then(
        (answer) => {
          this.#succeed(attempt);
          this.#listener.standaloneOpened();
          void this.#keep(stream, answer);
        },
        // Many servers offer no such stream, and say so with all kinds of errors.
        () => this.#giveUp(attempt),
      );
    return attempt;
  }

  /** Reads the stream, and gets it back when it breaks, for as long as that can be done. */
  async #keep(stream: ResumableStream, first: HttpResponse): Promise<void> {
    let answer = first;
    for (;;) {
      await stream.read(answer);
      if (stream.finished) return;
      const attempt = this.#try();
      try {
        answer = await stream.resume(undefined, () => attempt.refused.resolve(false));
      } catch (error) {
        this.#giveUp(attempt);
        if (!stream.finished) this.#listener.standaloneLost(asUpstreamFailure(error, false));
        return;
      }
      this.#succeed(attempt);
      this.#listener.standaloneResumed(stream.lastEventId !== undefined);
    }
  }

  #try(): Attempt {
    this.#attempt = { opened: Promise.withResolvers(), refused: Promise.withResolvers() };
    return this.#attempt;
  }

  #succeed({ opened }: Attempt): void {
    this.#attempt = null;
    opened.resolve(true);
  }

  #giveUp({ opened }: Attempt): void {
    this.#attempt = null;
    this.#stream = null;
    opened.resolve(false);
  }
}
