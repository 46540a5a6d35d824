/** The waiter of a client that waits at another replica: lines for it are sent there, in messages. */
import type { CallReply, Waiter } from '../../model/request.ts';
import { type Clock, type Timer, Closing } from '../../lib/clock.ts';
import type { JsonObject } from '../../protocol/json.ts';
import { startHeartbeat } from './liveness.ts';
import { writeLine } from './messages.ts';

/** Lines that wait are sent together up to this length, since many small messages are slow. */
const BATCH_LENGTH = 1024 * 1024;
/** A reply within this time needs no heartbeat. */
const QUICK_REPLY_MS = 50;
/** The backlog begins beyond this. */
const MAX_WAITING_BYTES = 1024 * 1024;

export class RemoteWaiter implements Waiter {
  readonly #send: (lines: string) => Promise<unknown>;
  readonly #clock: Clock;
  readonly closed = new Closing();
  #stopHeartbeat = () => {};
  #closing: Timer | null = null;
  /** Lines that wait for those in flight: the reply must not overtake the progress. */
  #lines: string[] = [];
  #sending: Promise<void> | null = null;
  /** Of the lines that wait and of those in flight. */
  #waitingBytes = 0;
  #isEnded = false;
  #backlog: PromiseWithResolvers<void> | null = null;

  /**
   * @param send sends lines, or an empty text as a heartbeat. It resolves when they were taken, or are lost, and
   *   rejects if the other replica counts as gone.
   */
  constructor(send: (lines: string) => Promise<unknown>, clock: Clock) {
    this.#send = send;
    this.#clock = clock;
  }

  get backlog(): Promise<void> | null {
    return this.#backlog?.promise ?? null;
  }

  /** Sends heartbeats from now on, since the call is here. */
  begin(): void {
    // Lines in flight show that this process is alive; a heartbeat behind them would add nothing.
    const beat = () => {
      if (this.#sending === null) this.#write('');
    };
    this.#stopHeartbeat = startHeartbeat(this.#clock, beat, QUICK_REPLY_MS);
  }

  notify(method: string, params: JsonObject): void {
    if (this.#isEnded) return;
    this.#write(writeLine({ type: 'notification', method, params }));
    if (this.#waitingBytes > MAX_WAITING_BYTES) this.#backlog ??= Promise.withResolvers();
  }

  /** Resolves when the reply is sent, or cannot be. */
  async finish(reply: CallReply): Promise<void> {
    this.#stopHeartbeat();
    this.#closing?.cancel();
    this.#write(writeLine({ type: 'reply', reply }));
    this.#isEnded = true;
    this.#endBacklog();
    await this.#sending;
  }

  /** Ends the waiter: its client has left. @param afterMs only if the waiter has not finished after this time */
  close(afterMs = 0): void {
    if (this.#isEnded) return;
    this.#closing?.cancel();
    if (afterMs > 0) {
      this.#closing = this.#clock.setTimer(afterMs, () => this.close());
      return;
    }
    this.#stopHeartbeat();
    this.#isEnded = true;
    this.#lines = [];
    this.#endBacklog();
    this.closed.abort();
  }

  #endBacklog(): void {
    this.#backlog?.resolve();
    this.#backlog = null;
  }

  #write(line: string): void {
    if (this.#isEnded) return;
    this.#lines.push(line);
    this.#waitingBytes += Buffer.byteLength(line);
    this.#sending ??= this.#sendAll();
  }

  async #sendAll(): Promise<void> {
    while (this.#lines.length > 0) {
      const batch = this.#nextBatch();
      try {
        await this.#send(batch);
      } catch {
        this.#lines = [];
        this.close();
      }
      this.#waitingBytes -= Buffer.byteLength(batch);
    }
    this.#sending = null;
    this.#endBacklog();
  }

  #nextBatch(): string {
    let [{ length } = ''] = this.#lines;
    let count = 1;
    for (const line of this.#lines.slice(1)) {
      length += line.length;
      if (length > BATCH_LENGTH) break;
      count += 1;
    }
    return this.#lines.splice(0, count).join('');
  }
}
