/**
 * A retry that this replica sent to the owner of its call: the requester's side, whatever carries the messages (the kept
 * connection, HTTP or Redis). The owner carries out nothing before it knows that the client still waits: it can see that the
 * retry was just sent, or asks for a confirmation. So a retry that was given up has no effect. A new call, or a request about
 * a task, is relayed in the same way.
 */
import type { PointerOwner } from '../../seal/pointer.ts';
import type { Waiter } from '../../model/request.ts';
import { CLIENT_LEFT, type RelayOutcome } from '../../model/relay.ts';
import { inBackground } from '../../lib/background.ts';
import { sleep, type Clock, type Timer } from '../../lib/clock.ts';
import { LineAssembler, readLine, type MessageKind, type RelayMessage } from './messages.ts';
import {
  BUSY_OWNER_TIMEOUT_MS,
  HEARTBEAT_MS,
  OWNER_TIMEOUT_MS,
  RETURN_TIMEOUT_MS,
  startHeartbeat,
  startWatchdog,
  type Watchdog,
} from './liveness.ts';

/** An owner that takes messages at an address of its own. */
export type ReachableOwner = PointerOwner & { readonly address: string };

export interface OutgoingRetryOptions {
  readonly clock: Clock;
  /** The longest line of the owner's reply, in UTF-16 code units. */
  readonly maxLineLength: number;
  /** Sends a message to the owner. Never throws. @returns whether the message is on its way */
  send(kind: MessageKind, text?: string): Promise<boolean>;
  /** Whether heartbeats are needed, because a broken connection does not tell the owner that this process is gone. */
  readonly sendsHeartbeats: boolean;
  /** How long one piece can wait for a slow client, in ms; 0 if other retries wait behind it. */
  readonly maxPauseMs: number;
  /** Returns the time since the owner's last message for any retry, in ms. */
  sinceMessageMs(): number;
  /** Whether messages arrived that are not read yet. */
  isBehind?(): boolean;
  /** Called once, when nothing more is sent for this retry. */
  onEnd(): void;
}

/** How long the owner can take to reply that the client should retry, in ms. */
const RELEASE_TIMEOUT_MS = 1_500;
/** The timeout of a retry whose owner sends messages for other retries only, in ms. */
const UNHEARD_MS = 60_000;

export class OutgoingRetry {
  readonly #waiter: Waiter;
  readonly #options: OutgoingRetryOptions;
  readonly #outcome = Promise.withResolvers<RelayOutcome>();
  readonly #lines: LineAssembler;
  #state: 'waiting' | 'given up' | 'ended' = 'waiting';
  /** The owner may have carried out the retry. */
  #isConfirmed = false;
  /** The owner has sent a message. */
  #isHeard = false;
  #messageAtMs: number;
  #nextPiece = 0;
  /** Heartbeats in a row that could not be sent. */
  #failedHeartbeats = 0;
  #watchdog: Watchdog;
  #stopHeartbeat = () => {};
  #timer: Timer | null = null;

  constructor(waiter: Waiter, options: OutgoingRetryOptions) {
    this.#waiter = waiter;
    this.#options = options;
    this.#lines = new LineAssembler(options.maxLineLength);
    this.#messageAtMs = options.clock.elapsed();
    this.#watchdog = this.#startWatchdog();
    if (options.sendsHeartbeats) {
      this.#stopHeartbeat = startHeartbeat(options.clock, () =>
        inBackground(this.#sendHeartbeat()),
      );
    }
    waiter.closed.addEventListener('abort', this.#onClosed);
    if (waiter.closed.aborted) this.#onClosed();
  }

  /** Resolves when the retry ends or is given up. */
  get outcome(): Promise<RelayOutcome> {
    return this.#outcome.promise;
  }

  /** True if no message of the owner has an effect any more. */
  get isOver(): boolean {
    return this.#state === 'ended';
  }

  /** Tells that the owner may carry out the retry without `go`, since it can see that it was just sent. */
  confirm(): void {
    this.#isConfirmed = true;
  }

  /**
   * Handles a message of the owner. Repeated pieces are ignored. Resolves when the client has read the message,
   * or after `maxPauseMs`: then the client misses notifications.
   */
  async receive({ kind, number, text }: RelayMessage): Promise<void> {
    if (this.#state === 'ended') return;
    this.#messageAtMs = this.#options.clock.elapsed();
    if (this.#state === 'waiting') this.#hear();
    switch (kind) {
      case 'ready':
        if (this.#state !== 'waiting') return;
        this.#isConfirmed = true;
        inBackground(this.#options.send('go', text));
        return;
      case 'piece':
        if (number !== this.#nextPiece) return;
        this.#nextPiece += 1;
        return this.#receivePiece(text);
      case 'unknown':
        return this.end({ type: 'unknown', problem: 'it does not have the call' });
      default:
    }
  }

  /**
   * Stops waiting. The client is served in another way, or told to retry. The owner may still run the call, and
   * would cancel it for a client that has left, so the owner is told that the client will retry.
   */
  giveUp(outcome: RelayOutcome): void {
    if (this.#state !== 'waiting') return;
    if (!this.#isConfirmed) return this.end(outcome);
    this.#state = 'given up';
    this.#watchdog.stop();
    this.#stopHeartbeat();
    this.#resolve(outcome);
    this.#stopHeartbeat = startHeartbeat(this.#options.clock, () =>
      inBackground(this.#sendAgain()),
    );
    this.#endAfter(RETURN_TIMEOUT_MS);
    inBackground(this.#sendAgain());
  }

  /** Asks the owner to tell the client to retry, since this process stops. Gives up if the owner does not reply. */
  sendClientBack(): void {
    if (this.#state !== 'waiting' || this.#timer !== null) return;
    const released = { type: 'released', problem: 'this replica stops' } as const;
    if (!this.#isConfirmed) return this.end(released);
    const { clock, send } = this.#options;
    this.#stopHeartbeat();
    this.#stopHeartbeat = startHeartbeat(clock, () => inBackground(send('release')));
    this.#timer = clock.setTimer(RELEASE_TIMEOUT_MS, () => this.giveUp(released));
    inBackground(send('release'));
  }

  /** Ends the retry: the owner replied or does not have the call, or nobody waits any more. */
  end(outcome: RelayOutcome): void {
    if (this.#state === 'ended') return;
    this.#state = 'ended';
    this.#waiter.closed.removeEventListener('abort', this.#onClosed);
    this.#watchdog.stop();
    this.#stopHeartbeat();
    this.#timer?.cancel();
    this.#resolve(outcome);
    this.#options.onEnd();
  }

  #resolve(outcome: RelayOutcome): void {
    const isReply = outcome.type === 'replied';
    this.#outcome.resolve(isReply ? outcome : { ...outcome, isConfirmed: this.#isConfirmed });
  }

  async #receivePiece(text: string): Promise<void> {
    const lines = this.#lines.add(text);
    const { clock, maxPauseMs } = this.#options;
    const untilMs = clock.elapsed() + maxPauseMs;
    for (const written of lines ?? []) {
      const line = readLine(written);
      if (line === null) return this.#giveUpInvalid();
      if (line.type === 'reply') return this.end({ type: 'replied', reply: line.reply });
      const { backlog } = this.#waiter;
      // Without a wait, messages that arrive together cannot overtake each other.
      if (backlog !== null && untilMs > clock.elapsed()) await this.#untilRead(backlog, untilMs);
      if (this.#state === 'waiting') this.#waiter.notify(line.method, line.params);
    }
    if (lines === null) this.#giveUpInvalid();
  }

  /** Waits while the client reads slowly. The owner is not to blame for that time. */
  async #untilRead(backlog: Promise<void>, untilMs: number): Promise<void> {
    if (this.#state !== 'waiting') return;
    const { clock } = this.#options;
    const isRead = new AbortController();
    this.#watchdog.stop();
    await Promise.race([backlog, sleep(clock, untilMs - clock.elapsed(), isRead.signal)]);
    isRead.abort();
    if (this.#state === 'waiting') this.#watchdog = this.#startWatchdog();
  }

  #giveUpInvalid(): void {
    this.giveUp({ type: 'silent', problem: 'it sent an invalid relay message' });
  }

  readonly #onClosed = (): void => {
    inBackground(this.#options.send('closed'));
    this.end(CLIENT_LEFT);
  };

  /** An owner that has the retry gets more time. */
  #hear(): void {
    if (this.#isHeard) return this.#watchdog.reset();
    this.#isHeard = true;
    this.#watchdog.stop();
    this.#watchdog = this.#startWatchdog();
  }

  get #timeoutMs(): number {
    return this.#isHeard ? BUSY_OWNER_TIMEOUT_MS : OWNER_TIMEOUT_MS;
  }

  #startWatchdog(timeoutMs = this.#timeoutMs): Watchdog {
    const { clock, isBehind } = this.#options;
    return startWatchdog(clock, timeoutMs, () => this.#onTimeout(), isBehind);
  }

  /** Continues to wait if the owner recently sent a message for another retry. */
  #onTimeout(): void {
    const { clock, sinceMessageMs } = this.#options;
    // In whole ms: a part of one that a clock cannot tell from none would be waited for again and again.
    const leftMs = Math.ceil(this.#timeoutMs - sinceMessageMs());
    if (leftMs > 0 && clock.elapsed() - this.#messageAtMs < UNHEARD_MS) {
      this.#watchdog = this.#startWatchdog(leftMs);
    } else {
      this.giveUp({ type: 'silent', problem: 'no heartbeat' });
    }
  }

  async #sendHeartbeat(): Promise<void> {
    this.#failedHeartbeats = (await this.#options.send('alive')) ? 0 : this.#failedHeartbeats + 1;
    if (this.#failedHeartbeats * HEARTBEAT_MS < OWNER_TIMEOUT_MS) return;
    this.giveUp({ type: 'unreachable', problem: 'Redis does not take messages' });
  }

  async #sendAgain(): Promise<void> {
    const { send, sendsHeartbeats } = this.#options;
    const isSent = await send('again');
    if (this.#state !== 'given up') return;
    if (isSent) this.end(CLIENT_LEFT);
    // While Redis is unreachable, the client cannot reach the owner either.
    else if (sendsHeartbeats) this.#endAfter(RETURN_TIMEOUT_MS);
  }

  #endAfter(ms: number): void {
    this.#timer?.cancel();
    this.#timer = this.#options.clock.setTimer(ms, () => this.end(CLIENT_LEFT));
  }
}
