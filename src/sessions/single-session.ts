/**
 * The one session with a server that broadcasts. It carries one call at a time, over all
 * callers: only then is it clear which call a message belongs to that has no id of the gateway.
 */
import { inBackground } from '../lib/background.ts';
import type { Clock, Timer } from '../lib/clock.ts';
import type { UpstreamFailure } from '../model/upstream-failure.ts';
import type { Session } from '../upstream/session/session.ts';
import type { CallerHeaders } from '../upstream/transport/transport.ts';
import type { SharedLease } from './lease.ts';
import { UseCount } from './use-count.ts';
import { busy, type PermittedSession, type QueueLimits } from './permits.ts';

export interface SingleSessionOptions {
  readonly idleTimeoutMs: number;
  /** For the calls that wait for the session. */
  readonly queue: QueueLimits;
}

/** The session that a caller needs, and how it is opened. */
export interface SessionRequirement {
  /** Equal for callers that may use the same session. */
  readonly key: string;
  readonly headers: CallerHeaders;
  readonly open: () => Promise<PermittedSession>;
}

interface OpenSession extends PermittedSession {
  readonly key: string;
  readonly uses: UseCount;
}

/** The session, for one call. The next call waits for the end of this lease. */
export interface SingleSessionLease {
  readonly session: Session;
  /** @param keep whether the session can be used again */
  end(keep: boolean): void;
}

interface WaitingCall {
  readonly isWanted: () => boolean;
  readonly free: PromiseWithResolvers<void>;
  readonly expiry: Timer;
}

export class SingleSession {
  readonly #options: SingleSessionOptions;
  readonly #clock: Clock;
  #waiting: WaitingCall[] = [];
  #taken = false;
  #current: OpenSession | null = null;
  /** Sessions are opened and replaced one after the other. */
  #changing: Promise<unknown> = Promise.resolve();

  constructor(options: SingleSessionOptions, clock: Clock) {
    this.#options = options;
    this.#clock = clock;
  }

  /**
   * Waits until no call has the session, and lends it to this one. A session of another caller is closed first.
   * @param before what has to end before the first call begins. It is waited for as long as for the session
   * @param isWanted returns false once the call no longer wants the session
   * @throws UpstreamFailure `upstream_busy` if too many calls wait, this one waits for too long, or it no longer wants the session
   */
  async lease(
    wanted: SessionRequirement,
    before: () => Promise<void>,
    isWanted: () => boolean,
  ): Promise<SingleSessionLease> {
    const untilMs = this.#clock.elapsed() + this.#options.queue.waitMs;
    await this.#waitUntilFree(isWanted);
    try {
      await this.#waitFor(before(), untilMs);
      if (!isWanted()) throw clientLeft();
      const lent = await this.#change(() => this.#sessionFor(wanted));
      const giveBack = this.#use(lent);
      const { session } = lent;
      return {
        session,
        end: (keep) => {
          giveBack();
          if (!keep || session.dead) this.#drop(lent);
          this.#next();
        },
      };
    } catch (error) {
      this.#next();
      throw error;
    }
  }

  /** Lends the session to a request that cannot lead to questions, beside a call, whoever it was opened for. */
  async borrow(wanted: SessionRequirement): Promise<SharedLease> {
    const current = await this.#change(async () => {
      const current = this.#current;
      if (current !== null && !current.session.dead) return current;
      return this.#replace(wanted);
    });
    return { session: current.session, giveBack: this.#use(current) };
  }

  async close(): Promise<void> {
    if (this.#current !== null) await this.#end(this.#current);
  }

  #waitUntilFree(isWanted: () => boolean): Promise<void> | void {
    if (!this.#taken) {
      this.#taken = true;
      return;
    }
    const { length, waitMs } = this.#options.queue;
    if (this.#waiting.length >= length) this.#dropUnwanted();
    if (this.#waiting.length >= length) throw broadcastBusy(`${length} calls wait already`);
    const free = Promise.withResolvers<void>();
    const expiry = this.#clock.setTimer(waitMs, () => {
      this.#waiting.splice(this.#waiting.indexOf(waiting), 1);
      free.reject(tooLate(waitMs));
    });
    const waiting: WaitingCall = { isWanted, free, expiry };
    this.#waiting.push(waiting);
    return free.promise;
  }

  async #waitFor(ended: Promise<void>, untilMs: number): Promise<void> {
    const late = Promise.withResolvers<never>();
    const expiry = this.#clock.setTimer(Math.max(0, untilMs - this.#clock.elapsed()), () =>
      late.reject(tooLate(this.#options.queue.waitMs)),
    );
    await Promise.race([ended, late.promise]).finally(() => expiry.cancel());
  }

  #next(): void {
    this.#dropUnwanted();
    const next = this.#waiting.shift();
    if (next === undefined) {
      this.#taken = false;
      return;
    }
    next.expiry.cancel();
    next.free.resolve();
  }

  #dropUnwanted(): void {
    const wanted = this.#waiting.filter(({ isWanted }) => isWanted());
    const dropped = this.#waiting.filter((waiting) => !wanted.includes(waiting));
    this.#waiting = wanted;
    for (const { free, expiry } of dropped) {
      expiry.cancel();
      free.reject(clientLeft());
    }
  }

  #change<Changed>(change: () => Promise<Changed>): Promise<Changed> {
    const changed = this.#changing.then(change);
    this.#changing = changed.catch(() => {});
    return changed;
  }

  async #sessionFor(wanted: SessionRequirement): Promise<OpenSession> {
    const current = this.#current;
    const fits = current?.key === wanted.key && (await current.session.ready(wanted.headers));
    return fits ? current : this.#replace(wanted);
  }

  async #replace({ key, open }: SessionRequirement): Promise<OpenSession> {
    await this.close();
    const opened = await open();
    const uses = new UseCount(this.#clock, this.#options.idleTimeoutMs, () => this.#drop(current));
    const current: OpenSession = { ...opened, key, uses };
    this.#current = current;
    return current;
  }

  #use(lent: OpenSession): () => void {
    if (lent !== this.#current) return () => {};
    const { permit, uses } = lent;
    const end = uses.use();
    permit.used();
    return () => {
      end();
      if (!uses.inUse && lent === this.#current) permit.idle(() => this.#drop(lent));
    };
  }

  #drop(dropped: OpenSession): void {
    inBackground(this.#end(dropped));
  }

  #end(ended: OpenSession): Promise<void> {
    const { session, permit, uses } = ended;
    if (this.#current === ended) this.#current = null;
    uses.stop();
    return session.close().finally(() => permit.free());
  }
}

function tooLate(waitMs: number): UpstreamFailure {
  return broadcastBusy(`the calls before this one did not end within ${waitMs} ms`);
}

function clientLeft(): UpstreamFailure {
  return broadcastBusy('the client of the call has left');
}

function broadcastBusy(problem: string): UpstreamFailure {
  return busy(`the server broadcasts, so that it is sent one call at a time, and ${problem}`);
}
