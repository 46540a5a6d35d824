/**
 * The stream of Streamable HTTP for messages that belong to no request. There is one at a time. When it
 * breaks it is opened again, and callers that need it wait a moment for that.
 */
import { inBackground } from '../../lib/background.ts';
import { sleep, type Clock } from '../../lib/clock.ts';
import { once } from '../../lib/once.ts';
import type { DeferredHeaders } from '../quirks/deferred-headers.ts';
import { asUpstreamFailure, type UpstreamFailure } from '../../model/upstream-failure.ts';
import { ReconnectPauses } from './reconnect-pauses.ts';
import { ResumableStream, type StreamContext, type StreamOwner } from './resumable-stream.ts';
import { mayPass, type ResumeOptions } from './resumption.ts';
import { HELD_HEAD_MS } from './stream-get.ts';
import type { CallerHeaders, TransportListener } from './transport.ts';

/** How long a stream is waited for from when it broke, in ms. */
const OPEN_TIMEOUT_MS = 2_000;
/** After so many failures in a row that may pass the stream counts as refused. */
const MAX_FAILURES = 5;

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

/** What the stream needs of its transport. */
export interface StandaloneContext extends StreamContext {
  /** The stream has ended, or is refused. */
  standaloneEnded(): void;
}

export class StandaloneStream implements StreamOwner {
  readonly #context: StandaloneContext;
  readonly #listener: TransportListener;
  readonly #deferredHeaders: DeferredHeaders;
  readonly #clock: Clock;
  readonly #closing = new AbortController();
  #stream: ResumableStream | null = null;
  /** `null` while the stream is open, and while nothing tries to open it. */
  #attempt: OpeningAttempt | null = null;
  readonly #pauses: ReconnectPauses;
  #state: 'never' | 'open' | 'lost' = 'never';
  #openedAtMs = 0;
  /** The headers with which the server refused the credentials, as JSON. */
  #refusedHeaders: string | null = null;

  constructor(
    context: StandaloneContext,
    listener: TransportListener,
    deferredHeaders: DeferredHeaders,
    random: () => number,
  ) {
    this.#pauses = new ReconnectPauses(random);
    this.#context = context;
    this.#listener = listener;
    this.#deferredHeaders = deferredHeaders;
    this.#clock = context.clock;
  }

  /** True while it is connected. */
  get isOpen(): boolean {
    return this.#stream !== null && (this.#attempt === null || this.#attempt.isHeld);
  }

  /** True while it is connected, or being opened or resumed, and the server has not refused that. */
  get isOffered(): boolean {
    return this.#stream !== null && this.#state !== 'lost';
  }

  /** See `Transport.standaloneDue`. */
  get isDue(): boolean {
    const isTried = this.#stream !== null || this.#state === 'lost';
    return isTried && !this.isOpen && this.#deferredHeaders.isOffered;
  }

  /** See `Transport.standaloneHeld`. */
  get held(): boolean {
    return this.#attempt?.isHeld === true;
  }

  /** See `Transport.openStandaloneStream`. */
  open(headers: CallerHeaders, wait?: 'once'): boolean | Promise<boolean> {
    if (this.#closing.signal.aborted) return false;
    if (this.#stream === null && this.#refusedHeaders === JSON.stringify(headers)) return false;
    const attempt = this.#stream === null ? this.#begin(headers) : this.#attempt;
    if (this.#stream !== null) this.#stream.headers = headers;
    return attempt === null || this.#opened(attempt, wait);
  }

  async #opened(attempt: OpeningAttempt, wait?: 'once'): Promise<boolean> {
    const late = new AbortController();
    const signal = AbortSignal.any([late.signal, this.#closing.signal]);
    const leftMs = attempt.startedAtMs + OPEN_TIMEOUT_MS - this.#clock.elapsed();
    const waitMs = attempt.isHeld ? this.#deferredHeaders.patienceMs : Math.max(leftMs, 0);
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
    this.#pauses.ended(stream.hasHeard, this.#clock.elapsed() - this.#openedAtMs);
    void this.#connect(stream);
    this.#context.standaloneEnded();
  }

  #begin(headers: CallerHeaders): OpeningAttempt {
    this.#stream = new ResumableStream({ stream: 'standalone' }, headers, this.#context, this);
    return this.#connect(this.#stream);
  }

  #connect(stream: ResumableStream): OpeningAttempt {
    const attempt = this.#newAttempt();
    inBackground(this.#tryAgain(stream, attempt));
    return attempt;
  }

  /**
   * Sends GETs until one opens the stream. A stream that was never open is given up when it is refused: many servers
   * offer none, and say so with all kinds of errors. Refused credentials are not sent again.
   */
  async #tryAgain(stream: ResumableStream, attempt: OpeningAttempt): Promise<void> {
    const { signal } = this.#closing;
    const options = this.#optionsOf(stream, attempt);
    for (let failures = 0; ;) {
      const pauseMs =
        this.#state === 'never' && failures === 0 ? 0 : this.#pauses.next(stream.retryMs);
      if (pauseMs > OPEN_TIMEOUT_MS) attempt.opened.resolve(false);
      if (pauseMs > 0) await sleep(this.#clock, pauseMs, signal);
      // What is here no more is closed meanwhile.
      if (this.#state !== 'never') await this.#listener.beforeReopening();
      try {
        return await stream.connect(options);
      } catch (error) {
        if (stream.finished) return this.#giveUp(attempt);
        const failure = asUpstreamFailure(error, false);
        if (failure.code !== 'session_gone') attempt.refused.resolve(false);
        // The server had taken the GET, and had nothing to send: nothing has failed.
        if (mayPass(failure) && (stream.ageMs ?? 0) >= HELD_HEAD_MS) continue;
        failures += 1;
        if (mayPass(failure) && failures < MAX_FAILURES) continue;
        if (!(await this.#refused(stream, attempt, failure))) return this.#giveUp(attempt);
      }
    }
  }

  /** The server does not open the stream for now. @returns whether to try again */
  async #refused(
    stream: ResumableStream,
    attempt: OpeningAttempt,
    failure: UpstreamFailure,
  ): Promise<boolean> {
    const wasHeld = attempt.isHeld;
    attempt.isHeld = false;
    // Whoever waits for the stream wants to know as well whether the session is still there.
    if (failure.code !== 'session_gone') attempt.opened.resolve(false);
    if (failure.code === 'unauthorized') this.#refusedHeaders = JSON.stringify(stream.headers);
    if (this.#state === 'never') {
      if (wasHeld) this.#listener.standaloneRefused(failure);
      const mayBeGone = failure.code === 'session_gone' && this.#deferredHeaders.isOffered;
      if (mayBeGone) await this.#listener.confirmSession();
      return false;
    }
    if (failure.code === 'session_gone' && !(await this.#listener.confirmSession())) return false;
    attempt.opened.resolve(false);
    if (this.#state === 'open') this.#listener.standaloneLost(failure);
    this.#state = 'lost';
    this.#context.standaloneEnded();
    // The server may refuse to continue after this event.
    stream.lastEventId = undefined;
    return failure.code !== 'unauthorized';
  }

  #optionsOf(stream: ResumableStream, attempt: OpeningAttempt): ResumeOptions {
    const resumed = once(() => this.#listener.standaloneResumed(stream.lastEventId !== undefined));
    const onOpen = (afterMs: number) => {
      this.#succeed(attempt, afterMs);
      if (this.#state === 'open') resumed();
      else this.#listener.standaloneOpened();
      this.#state = 'open';
    };
    const onHeld = () => {
      if (this.#state === 'open') resumed();
      // The connection of a GET before has ended without a response.
      else if (attempt.isHeld) this.#listener.standaloneResumed(false);
      this.#hold(attempt);
    };
    return { onOpen, onHeld, heldAfterMs: this.#deferredHeaders.patienceMs };
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

  #hold(attempt: OpeningAttempt): void {
    attempt.isHeld = true;
    this.#deferredHeaders.held();
    attempt.held.resolve(false);
  }

  #succeed({ opened }: OpeningAttempt, afterMs: number): void {
    this.#attempt = null;
    this.#openedAtMs = this.#clock.elapsed();
    this.#deferredHeaders.opened(afterMs);
    opened.resolve(true);
  }

  #giveUp({ opened }: OpeningAttempt): void {
    this.#attempt = null;
    this.#stream = null;
    this.#context.standaloneEnded();
    opened.resolve(false);
  }
}
