/**
 * Pings that keep a server from expiring a session while a call waits for its client. An error reply, and any response of the
 * server that is not a reply, also show that it is there: whether it still has the call, its stream and the answer will show. The
 * server counts as gone if two pings in a row fail to reach it or get no response. A server over stdio that works on a call may
 * have a single thread, and the end of its process shows by itself. Whoever sends the pings sees that a session is forgotten.
 */
import { inBackground } from '../../lib/background.ts';
import type { Clock, Timer } from '../../lib/clock.ts';
import {
  asUpstreamFailure,
  type UpstreamFailure,
  type UpstreamFailureCode,
} from '../../model/upstream-failure.ts';
import type { ServerRequestId } from '../../protocol/ids.ts';
import type { JsonObject } from '../../protocol/json.ts';
import type { ProgressToken } from '../../protocol/meta.ts';

const MAX_MISSED_PINGS = 2;
const MISSED: readonly UpstreamFailureCode[] = ['upstream_unavailable', 'upstream_timeout'];

/** The most pings that are under way at one server, in all its sessions: sessions that were left together are due together. */
export const MAX_PINGS = 32;

export interface KeepAliveOptions {
  readonly clock: Clock;
  readonly intervalMs: number;
  /** Sends a ping. Rejects with UpstreamFailure if there is no reply. */
  readonly ping: () => Promise<unknown>;
  readonly isDead: () => boolean;
  /** Whether the server works on a call, and its end would show by itself. It may reply to nothing meanwhile. */
  readonly isWorking?: () => boolean;
  /** Called when the server is gone. */
  readonly gone: (failure: UpstreamFailure) => void;
}

export class KeepAlive {
  readonly #options: KeepAliveOptions;
  #timer: Timer | null = null;
  readonly #wanters = new Set<object>();
  #missed = 0;
  /** How many times new credentials came. */
  #renewals = 0;
  /** The renewal whose credentials were refused. Further pings with them could lock a user out. */
  #refused = -1;

  constructor(options: KeepAliveOptions) {
    this.#options = options;
  }

  /** Starts or stops the pings for one of those who want them. They stop when nobody does any more. */
  want(on: boolean, wanter: object): void {
    if (on) this.#wanters.add(wanter);
    else this.#wanters.delete(wanter);
    const others = this.#wanters.size - Number(on);
    // A start puts the next ping off. Several of them must not put it off for ever.
    if (others === 0 || (on && this.#timer === null)) this.set(on);
  }

  /** Starts the pings, again if they run already, or stops them. */
  set(on: boolean): void {
    this.#timer?.cancel();
    this.#timer = null;
    const { clock, intervalMs, isDead } = this.#options;
    if (!on || isDead() || this.#refused === this.#renewals) return;
    this.#timer = clock.setTimer(intervalMs, () => inBackground(this.#ping()));
  }

  /** New credentials have come: pings are sent again, if those before were refused. */
  renewed(): void {
    this.#renewals += 1;
    if (this.#timer === null && this.#wanters.size > 0) this.set(true);
  }

  async #ping(): Promise<void> {
    const { ping, gone, isWorking = () => false } = this.#options;
    const renewals = this.#renewals;
    const wasWorking = isWorking();
    try {
      await ping();
      this.#missed = 0;
    } catch (error) {
      const failure = asUpstreamFailure(error, true);
      const isExcused = failure.code === 'upstream_timeout' && (wasWorking || isWorking());
      if (!isExcused) this.#missed = MISSED.includes(failure.code) ? this.#missed + 1 : 0;
      if (failure.code === 'unauthorized') this.#refused = renewals;
      if (this.#missed >= MAX_MISSED_PINGS) gone(failure);
    }
    this.set(this.#timer !== null);
  }
}

/** A quarter of the request timeout of the official SDKs. */
const INTERVAL_MS = 15_000;

interface OpenQuestion {
  readonly progressToken: ProgressToken;
  progress: number;
}

/**
 * Sends progress for open questions. A server that gave its question a progress token may restart its
 * timeout with each progress notification (lifecycle, "Timeouts"), and the user may need long.
 */
export class ProgressHeartbeat {
  readonly #clock: Clock;
  readonly #send: (params: JsonObject) => void;
  readonly #open = new Map<ServerRequestId, OpenQuestion>();
  #timer: Timer | null = null;

  /** @param send sends `notifications/progress` with these params */
  constructor(clock: Clock, send: (params: JsonObject) => void) {
    this.#clock = clock;
    this.#send = send;
  }

  /** Starts progress for a question. */
  start(id: ServerRequestId, progressToken: ProgressToken): void {
    this.#open.set(id, { progressToken, progress: 0 });
    this.#timer ??= this.#clock.setTimer(INTERVAL_MS, () => this.#report());
  }

  /** Stops progress for a question: it was answered or withdrawn. */
  stop(id: ServerRequestId): void {
    this.#open.delete(id);
    if (this.#open.size === 0) this.stopAll();
  }

  stopAll(): void {
    this.#open.clear();
    this.#timer?.cancel();
    this.#timer = null;
  }

  #report(): void {
    this.#timer = this.#clock.setTimer(INTERVAL_MS, () => this.#report());
    for (const question of this.#open.values()) {
      question.progress += 1;
      const { progressToken, progress } = question;
      this.#send({ progressToken, progress });
    }
  }
}
