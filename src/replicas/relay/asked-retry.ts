/**
 * A retry that another replica is asked to serve: the asker's side of the conversation, whichever way its
 * letters go. The owner carries nothing out before the asker has confirmed that its client still waits,
 * so a retry that was given up here is void there, whenever it is read.
 */
import type { Leg } from '../../model/request.ts';
import { CLIENT_LEFT, type RelayOutcome } from '../../model/relay.ts';
import { sleep, type Clock, type Timer } from '../../lib/clock.ts';
import type { Letter, LetterKind } from './sealed-message.ts';
import { LinesOfPieces } from './pieces.ts';
import { readRelayLine } from './messages.ts';
import {
  COMING_AGAIN_MS,
  giveSigns,
  OWNER_SILENCE_MS,
  SIGN_OF_LIFE_MS,
  watchForSilence,
  type SilenceWatch,
} from './heartbeat.ts';

export interface AskedRetryOptions {
  readonly clock: Clock;
  /** The longest line of the owner's answer, in UTF-16 code units. */
  readonly maxLineLength: number;
  /** Writes to the owner; resolves with whether it is on its way. Never throws. */
  say(kind: LetterKind, text?: string): Promise<boolean>;
  /** Whether the way itself does not show the owner that this process is there. */
  readonly givesSigns: boolean;
  /** How long an owner may be silent that has taken the retry, in ms. */
  readonly busySilenceMs: number;
  /** How long one piece can wait for a client that is behind, in ms; 0 where others wait behind it. */
  readonly maxPauseMs: number;
  /** How long ago the owner was heard through any retry, in ms. */
  heardAgoMs(): number;
  /** Whether letters have come that were not read yet. */
  isBehind?(): boolean;
  /** Called once, when no more is said about this retry from here. */
  over(): void;
}

/** How long the owner may take to answer that the client is to come again, in ms. */
const RELEASE_MS = 1_500;
/** How long nothing may be heard of this retry while the owner is heard through others, in ms. */
const UNHEARD_MS = 60_000;

export class AskedRetry {
  readonly #leg: Leg;
  readonly #options: AskedRetryOptions;
  readonly #relayed = Promise.withResolvers<RelayOutcome>();
  readonly #lines: LinesOfPieces;
  #state: 'asked' | 'givenUp' | 'over' = 'asked';
  /** The owner may have carried the retry out. */
  #confirmed = false;
  #heardAtMs: number;
  #nextPiece = 0;
  /** Signs of life of ours that the store did not take, in a row. */
  #missedSigns = 0;
  #watch: SilenceWatch;
  #stopSigns = () => {};
  #timer: Timer | null = null;

  constructor(leg: Leg, options: AskedRetryOptions) {
    this.#leg = leg;
    this.#options = options;
    this.#lines = new LinesOfPieces(options.maxLineLength);
    this.#heardAtMs = options.clock.elapsed();
    this.#watch = this.#watched();
    if (options.givesSigns) {
      this.#stopSigns = giveSigns(options.clock, () => void this.#sayAlive());
    }
    leg.closed.addEventListener('abort', this.#onClosed);
    if (leg.closed.aborted) this.#onClosed();
  }

  /** What came of it; resolves when it is given up or at its end. */
  get relayed(): Promise<RelayOutcome> {
    return this.#relayed.promise;
  }

  /** False when nothing that the owner may say changes anything. */
  get isOver(): boolean {
    return this.#state === 'over';
  }

  /**
   * What the owner wrote, in its order; what comes twice is heard once. Resolves when the client has taken
   * it, or is behind for too long: then it misses notifications.
   */
  async hear({ kind, number, text }: Letter): Promise<void> {
    if (this.#state === 'over') return;
    this.#heardAtMs = this.#options.clock.elapsed();
    if (this.#state === 'asked') this.#watch.seen();
    switch (kind) {
      case 'ready':
        if (this.#state !== 'asked') return;
        if (!this.#confirmed) this.#confirm();
        void this.#options.say('go', text);
        return;
      case 'piece':
        if (number !== this.#nextPiece) return;
        this.#nextPiece += 1;
        return this.#hearPiece(text);
      case 'unknown':
        return this.end({ type: 'unknown', problem: 'it does not have the call' });
      default:
    }
  }

  /**
   * The client is served in another way, or told to come again. The owner may be at work on its call all
   * the same, and would end it for a client that is gone.
   */
  giveUp(relayed: RelayOutcome): void {
    if (this.#state !== 'asked') return;
    if (!this.#confirmed) return this.end(relayed);
    this.#state = 'givenUp';
    this.#watch.stop();
    this.#stopSigns();
    this.#relayed.resolve(relayed);
    this.#stopSigns = giveSigns(this.#options.clock, () => void this.#sayAgain());
    this.#sayAgainFor(COMING_AGAIN_MS);
    void this.#sayAgain();
  }

  /** This process stops: the client is told to come again, by the call if it can, or else from here. */
  release(): void {
    if (this.#state !== 'asked' || this.#timer !== null) return;
    const released = { type: 'released', problem: 'this replica stops' } as const;
    if (!this.#confirmed) return this.end(released);
    const { clock, say } = this.#options;
    this.#stopSigns();
    this.#stopSigns = giveSigns(clock, () => void say('release'));
    this.#timer = clock.setTimer(RELEASE_MS, () => this.giveUp(released));
    void say('release');
  }

  /** The owner has answered or does not have the call, or nobody waits for it any more. */
  end(relayed: RelayOutcome): void {
    if (this.#state === 'over') return;
    this.#state = 'over';
    this.#leg.closed.removeEventListener('abort', this.#onClosed);
    this.#watch.stop();
    this.#stopSigns();
    this.#timer?.cancel();
    this.#relayed.resolve(relayed);
    this.#options.over();
  }

  async #hearPiece(text: string): Promise<void> {
    const lines = this.#lines.add(text);
    const { clock, maxPauseMs } = this.#options;
    const untilMs = clock.elapsed() + maxPauseMs;
    for (const written of lines ?? []) {
      const line = readRelayLine(written);
      if (line === null) return this.#giveUpUnderstanding();
      if (line.type === 'answer') return this.end({ type: 'answered', answer: line.answer });
      await this.#untilTaken(untilMs - clock.elapsed());
      if (this.#state === 'asked') this.#leg.notify(line.method, line.params);
    }
    if (lines === null) this.#giveUpUnderstanding();
  }

  /** Waits while the client is behind: it is not the owner that is silent then. */
  async #untilTaken(maxMs: number): Promise<void> {
    const { backlog } = this.#leg;
    if (backlog === null || maxMs <= 0 || this.#state !== 'asked') return;
    const taken = new AbortController();
    this.#watch.stop();
    await Promise.race([backlog, sleep(this.#options.clock, maxMs, taken.signal)]);
    taken.abort();
    if (this.#state === 'asked') this.#watch = this.#watched();
  }

  #giveUpUnderstanding(): void {
    this.giveUp({ type: 'silent', problem: 'it sent an invalid relay message' });
  }

  readonly #onClosed = (): void => {
    void this.#options.say('closed');
    this.end(CLIENT_LEFT);
  };

  #confirm(): void {
    this.#confirmed = true;
    this.#watch.stop();
    this.#watch = this.#watched();
  }

  get #silenceMs(): number {
    return this.#confirmed ? this.#options.busySilenceMs : OWNER_SILENCE_MS;
  }

  #watched(afterMs = this.#silenceMs): SilenceWatch {
    const { clock, isBehind } = this.#options;
    return watchForSilence(clock, afterMs, () => this.#onSilence(), isBehind);
  }

  #onSilence(): void {
    const { clock, heardAgoMs } = this.#options;
    const heardThroughOthersMs = this.#silenceMs - heardAgoMs();
    const unheardMs = clock.elapsed() - this.#heardAtMs;
    if (heardThroughOthersMs > 0 && unheardMs < UNHEARD_MS) {
      this.#watch = this.#watched(heardThroughOthersMs);
    } else {
      this.giveUp({ type: 'silent', problem: 'no sign of life' });
    }
  }

  async #sayAlive(): Promise<void> {
    const isTaken = await this.#options.say('alive');
    this.#missedSigns = isTaken ? 0 : this.#missedSigns + 1;
    if (this.#missedSigns * SIGN_OF_LIFE_MS < OWNER_SILENCE_MS) return;
    this.giveUp({ type: 'unreachable', problem: 'the store takes no letters' });
  }

  async #sayAgain(): Promise<void> {
    const { say, givesSigns } = this.#options;
    const isTold = await say('again');
    if (this.#state !== 'givenUp') return;
    if (isTold) this.end(CLIENT_LEFT);
    // While the store is away the client cannot come to the owner either.
    else if (givesSigns) this.#sayAgainFor(COMING_AGAIN_MS);
  }

  #sayAgainFor(ms: number): void {
    this.#timer?.cancel();
    this.#timer = this.#options.clock.setTimer(ms, () => this.end(CLIENT_LEFT));
  }
}
