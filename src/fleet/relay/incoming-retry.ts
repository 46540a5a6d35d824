/**
 * Retries of clients of other replicas whose call is here: the owner's side, whatever carries the messages (the kept
 * connection, HTTP or Redis). New calls whose home is here, and requests about tasks, come in the same way.
 */
import { ReleasingMap } from '../../lib/containers.ts';
import type { ServeRelayed, RelayedHandle } from '../../model/relay.ts';
import type { Clock, Closed } from '../../lib/clock.ts';
import type { OpenResponses } from '../../lib/http.ts';
import { randomId } from '../../lib/crypto.ts';
import { splitIntoPieces, readRequest, type MessageKind, type RelayMessage } from './messages.ts';
import {
  REQUESTER_TIMEOUT_MS,
  CONFIRMATION_TIMEOUT_MS,
  RETURN_TIMEOUT_MS,
  startHeartbeat,
  startWatchdog,
  type Watchdog,
} from './liveness.ts';
import { RemoteWaiter } from './remote-waiter.ts';

/** Sends messages back to the requester. */
export interface ReplyChannel {
  /** Whether a broken connection shows that the requester is gone, so that its heartbeats are not needed. */
  readonly showsDisconnect: boolean;
  /** Whether the retry was sent so recently that its requester cannot have given it up since. */
  isFresh?(): boolean;
  /** Resolves when the message was taken, or is lost. Rejects if the requester counts as gone. */
  send(kind: MessageKind, text: string, number: number): Promise<void>;
  /** Whether messages arrived that are not read yet. */
  isBehind?(): boolean;
}

export interface IncomingRetriesOptions {
  readonly serveRelayed: ServeRelayed;
  readonly clock: Clock;
  readonly openResponses: OpenResponses;
}

export class IncomingRetries {
  readonly #options: IncomingRetriesOptions;
  /** By the id of their messages. */
  readonly #retries = new ReleasingMap<string, IncomingRetry>();

  constructor(options: IncomingRetriesOptions) {
    this.#options = options;
  }

  /**
   * Serves a retry, unless it is already served. Resolves when that is over.
   * @param onBegin called first, with the retry that is served
   */
  async serve(
    message: RelayMessage,
    channel: ReplyChannel,
    onBegin: (retry: IncomingRetry) => void,
  ): Promise<void> {
    const { id } = message;
    if (this.#retries.has(id)) return;
    const close = this.#options.openResponses.open();
    const retry = new IncomingRetry(message, channel, this.#options);
    onBegin(retry);
    this.#retries.set(id, retry);
    try {
      await retry.serve();
    } finally {
      this.#retries.delete(id);
      close();
    }
  }

  /** Handles a later message of the requester. */
  receive(message: RelayMessage): void {
    const retry = this.#retries.get(message.id);
    if (retry?.from === message.from) retry.receive(message);
  }

  close(): void {
    for (const retry of this.#retries.values()) retry.close();
  }
}

export class IncomingRetry {
  readonly from: string;
  readonly #text: string;
  readonly #channel: ReplyChannel;
  readonly #options: IncomingRetriesOptions;
  readonly #waiter: RemoteWaiter;
  readonly #watchdog: Watchdog;
  #confirmation: Confirmation | null = null;
  #handle: RelayedHandle | null = null;
  /** The client was told to retry. */
  #clientReturns = false;
  #isDisconnected = false;
  #pieces = 0;

  constructor(
    { from, text }: RelayMessage,
    channel: ReplyChannel,
    options: IncomingRetriesOptions,
  ) {
    const { clock } = options;
    this.from = from;
    this.#text = text;
    this.#channel = channel;
    this.#options = options;
    this.#waiter = new RemoteWaiter((lines) => this.#send(lines), clock);
    this.#watchdog = startWatchdog(
      clock,
      REQUESTER_TIMEOUT_MS,
      () => this.#waiter.close(),
      () => channel.isBehind?.() ?? false,
    );
    this.#waiter.closed.addEventListener('abort', () => this.#confirmation?.cancel());
  }

  /** Aborts when nothing more can be sent. */
  get closed(): Closed {
    return this.#waiter.closed;
  }

  /** Resolves when the reply is sent, or cannot be. */
  async serve(): Promise<void> {
    try {
      await this.#serve();
    } catch {
      // Even if the fault is ours: the requester notices, and tells its client to retry.
      this.#waiter.close();
    } finally {
      this.#watchdog.stop();
    }
  }

  receive({ kind, text }: RelayMessage): void {
    this.resetWatchdog();
    switch (kind) {
      case 'go':
        return this.#confirmation?.accept(text);
      case 'release':
        return this.#handle?.sendClientBack();
      case 'again':
        // What was not carried out needs not be kept, and must not be carried out any more.
        if (this.#handle === null) return this.#waiter.close();
        this.#clientReturns = true;
        this.#watchdog.stop();
        return this.#waiter.close(RETURN_TIMEOUT_MS);
      case 'closed':
        return this.#waiter.close();
      default:
    }
  }

  /** Counts as a message of the requester. */
  resetWatchdog(): void {
    if (!this.#clientReturns) this.#watchdog.reset();
  }

  /** Handles the end of the connection. @param keepMs how long the call is kept for the next retry, in ms */
  disconnected(keepMs: number): void {
    this.#isDisconnected = true;
    if (!this.#clientReturns) this.#waiter.close(this.#handle === null ? 0 : keepMs);
  }

  close(): void {
    this.#waiter.close();
  }

  async #serve(): Promise<void> {
    const message = readRequest(this.#text);
    const handle =
      message && (await this.#options.serveRelayed(message.route, message.request, this.#waiter));
    if (handle === null) return this.#channel.send('unknown', '', 0);
    if (this.#waiter.closed.aborted) return;
    if (this.#channel.isFresh?.() !== true && !(await this.#isConfirmed())) return;
    if (this.#waiter.closed.aborted) return;
    const reply = handle.begin();
    if (reply === null) return this.#channel.send('unknown', '', 0);
    this.#handle = handle;
    if (this.#channel.showsDisconnect) this.#watchdog.stop();
    this.#waiter.begin();
    await this.#waiter.finish(await reply);
  }

  /** Asks whether the client still waits. */
  #isConfirmed(): Promise<boolean> {
    this.#confirmation = new Confirmation(this.#options.clock, (token) => {
      this.#channel.send('ready', token, 0).catch(() => this.#waiter.close());
    });
    return this.#confirmation.request();
  }

  /** @param lines for the client; empty for a heartbeat */
  async #send(lines: string): Promise<void> {
    if (lines === '') return this.#channel.send('alive', '', 0);
    for (const piece of splitIntoPieces(lines)) {
      if (this.#isDisconnected || this.#waiter.closed.aborted) return;
      await this.#channel.send('piece', piece, this.#pieces);
      this.#pieces += 1;
    }
  }
}

/**
 * Asks whether a retry still counts. Its message may have waited in a socket or a queue while this process was
 * stalled, and the client may have its reply from elsewhere.
 */
class Confirmation {
  readonly #clock: Clock;
  readonly #ask: (token: string) => void;
  /** When each token was sent that can still be accepted. */
  readonly #sentAtMs = new Map<string, number>();
  readonly #result = Promise.withResolvers<boolean>();
  #stopAsking = () => {};

  /** @param ask sends a token, which the requester repeats */
  constructor(clock: Clock, ask: (token: string) => void) {
    this.#clock = clock;
    this.#ask = ask;
  }

  /** Asks until a confirmation arrives in time. @returns false if it was cancelled before */
  request(): Promise<boolean> {
    this.#stopAsking = startHeartbeat(this.#clock, () => this.#sendToken());
    this.#sendToken();
    return this.#result.promise;
  }

  /** Accepts a confirmation that is in time. A late one, as after a stall of this process, is asked for again. */
  accept(token: string): void {
    const sentAtMs = this.#sentAtMs.get(token);
    if (sentAtMs === undefined) return;
    if (this.#clock.elapsed() - sentAtMs <= CONFIRMATION_TIMEOUT_MS) this.#end(true);
    else this.#sendToken();
  }

  cancel(): void {
    this.#end(false);
  }

  #end(isConfirmed: boolean): void {
    this.#stopAsking();
    this.#result.resolve(isConfirmed);
  }

  #sendToken(): void {
    const nowMs = this.#clock.elapsed();
    for (const [token, sentAtMs] of this.#sentAtMs) {
      if (nowMs - sentAtMs > CONFIRMATION_TIMEOUT_MS) this.#sentAtMs.delete(token);
    }
    const token = randomId();
    this.#sentAtMs.set(token, nowMs);
    this.#ask(token);
  }
}
