/**
 * The one session with a server that broadcasts. It carries one call at a time, over all
 * callers: only then is it clear which call a message belongs to that has no id of the gateway.
 */
import { inBackground } from '../lib/background.ts';
import { Closing, sleep, type Clock, type Timer } from '../lib/clock.ts';
import { once } from '../lib/once.ts';
import type { Session } from '../upstream/session/session.ts';
import type { CallerHeaders } from '../upstream/transport/transport.ts';
import { CallQueue } from './call-queue.ts';
import type { SharedLease } from './lease.ts';
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
  users: number;
  /** Runs while nobody uses the session. */
  expiry: Timer | null;
}

/** The session, for one call. The next call waits for the end of this lease. */
export interface SingleSessionLease {
  readonly session: Session;
  /** @param keep whether the session can be used again */
  end(keep: boolean): void;
}

const NAME = 'the one session of a server that broadcasts, which is sent one call at a time';

export class SingleSession {
  readonly #options: SingleSessionOptions;
  readonly #clock: Clock;
  readonly #calls: CallQueue;
  #current: OpenSession | null = null;
  /** Sessions are opened and replaced one after the other. */
  #changing: Promise<unknown> = Promise.resolve();

  constructor(options: SingleSessionOptions, clock: Clock) {
    this.#options = options;
    this.#clock = clock;
    this.#calls = new CallQueue({
      ...{ ...options.queue, clock, session: NAME },
      rule: () => 'queue',
      habitOf: () => 'unknown',
      certainInMs: () => 0,
      turn: () => null,
    });
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
    const { waitMs } = this.#options.queue;
    const untilMs = this.#clock.elapsed() + waitMs;
    const call = await this.#calls.enter(isWanted, { name: NAME });
    try {
      const ended = new Closing();
      inBackground(before().then(() => ended.abort()));
      await sleep(this.#clock, untilMs - this.#clock.elapsed(), ended);
      if (!ended.aborted) throw busy(`other calls of the server did not end within ${waitMs} ms`);
      if (!isWanted()) throw busy('its client has left');
      const lent = await this.#change(() => this.#sessionFor(wanted));
      const giveBack = this.#use(lent);
      const { session } = lent;
      return {
        session,
        end: (keep) => {
          giveBack();
          if (!keep || session.dead) this.#drop(lent);
          call.end();
        },
      };
    } catch (error) {
      call.end();
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
    this.#current = { ...(await open()), key, users: 0, expiry: null };
    return this.#current;
  }

  #use(lent: OpenSession): () => void {
    if (lent !== this.#current) return () => {};
    lent.users += 1;
    lent.expiry?.cancel();
    lent.permit.used();
    return once(() => {
      lent.users -= 1;
      if (lent.users > 0 || lent !== this.#current) return;
      const drop = () => this.#drop(lent);
      lent.expiry = this.#clock.setTimer(this.#options.idleTimeoutMs, drop);
      lent.permit.idle(drop);
    });
  }

  #drop(dropped: OpenSession): void {
    inBackground(this.#end(dropped));
  }

  #end(ended: OpenSession): Promise<void> {
    const { session, permit } = ended;
    if (this.#current === ended) this.#current = null;
    ended.expiry?.cancel();
    return session.close().finally(() => permit.free());
  }
}
