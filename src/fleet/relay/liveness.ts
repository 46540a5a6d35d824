/** How the two replicas of a relayed retry show each other that they are alive, and how each notices that the other is not. */
import type { Clock, Timer } from '../../lib/clock.ts';
import { LruMap } from '../../lib/containers.ts';

export const HEARTBEAT_MS = 500;
/** Six missed heartbeats. The owner is no longer waited for, which does not mean that it is dead. */
export const OWNER_TIMEOUT_MS = 3_000;
/** The same for an owner that has sent a message for the retry: large results for many clients can keep it busy. */
export const BUSY_OWNER_TIMEOUT_MS = 10_000;
/**
 * How long after its request for confirmation the owner carries out a retry. It is shorter than
 * `OWNER_TIMEOUT_MS`, so nothing is carried out that the requester has given up.
 */
export const CONFIRMATION_TIMEOUT_MS = 2_000;
/**
 * The requester is given up, and its client with it. It is longer than `OWNER_TIMEOUT_MS`, since that cancels the
 * call, and longer than a read of the Redis queue can hang.
 */
export const REQUESTER_TIMEOUT_MS = 6_000;
/** How long a reply on a connection can stay unread before the owner gives up the requester, which a slow client holds back. */
export const UNREAD_TIMEOUT_MS = 30_000;
/** How long the call waits for the client of a retry that was given up. */
export const RETURN_TIMEOUT_MS = 30_000;

export interface Watchdog {
  /** Restarts the timeout, since a message arrived. */
  reset(): void;
  stop(): void;
}

/**
 * Calls back if nothing arrives for `timeoutMs`, which is counted in missed heartbeats. If this process stalls,
 * its timers fire before what arrived meanwhile is read: then one heartbeat counts as missed, and what arrived
 * is read before the next one can be.
 * @param isBehind whether something arrived that is not read yet; then no heartbeat counts as missed
 */
export function startWatchdog(
  clock: Clock,
  timeoutMs: number,
  onTimeout: () => void,
  isBehind = () => false,
): Watchdog {
  let leftMs = timeoutMs;
  const wait = (): Timer => {
    const waitMs = Math.min(leftMs, HEARTBEAT_MS);
    return clock.setTimer(waitMs, () => {
      if (!isBehind()) leftMs -= waitMs;
      if (leftMs > 0) timer = wait();
      else onTimeout();
    });
  };
  let timer = wait();
  return {
    reset: () => {
      timer.cancel();
      leftMs = timeoutMs;
      timer = wait();
    },
    stop: () => timer.cancel(),
  };
}

/**
 * Calls `send` every `HEARTBEAT_MS`.
 * @param firstAfterMs when it is called first
 * @returns a function that stops it
 */
export function startHeartbeat(
  clock: Clock,
  send: () => void,
  firstAfterMs = HEARTBEAT_MS,
): () => void {
  const beat = () => {
    timer = clock.setTimer(HEARTBEAT_MS, beat);
    send();
  };
  let timer = clock.setTimer(firstAfterMs, beat);
  return () => timer.cancel();
}

/** How long a silent replica can still be alive if no lease tells, in ms. */
const MAX_SILENCE_MS = 10_000;
/** After this time without a request, an earlier silence says nothing, in ms. */
const FORGET_AFTER_MS = 60_000;
const MAX_OWNERS = 10_000;

interface Activity {
  messageAtMs: number | null;
  /** The first request since the last message. */
  silentSinceMs: number | null;
  requestAtMs: number;
}

/**
 * When other replicas last sent anything. A message for one retry counts for all retries that wait for the
 * same process: under load, single retries can wait long.
 */
export class OwnerActivity {
  readonly #clock: Pick<Clock, 'elapsed'>;
  readonly #owners = new LruMap<string, Activity>(MAX_OWNERS);

  constructor(clock: Pick<Clock, 'elapsed'>) {
    this.#clock = clock;
  }

  /** Records that a retry is sent to the process. */
  recordRequest(instance: string): void {
    const nowMs = this.#clock.elapsed();
    const known = this.#owners.get(instance);
    const isStale = known !== undefined && nowMs - known.requestAtMs > FORGET_AFTER_MS;
    this.#owners.set(instance, {
      messageAtMs: known?.messageAtMs ?? null,
      silentSinceMs: isStale ? nowMs : (known?.silentSinceMs ?? nowMs),
      requestAtMs: nowMs,
    });
  }

  recordMessage(instance: string): void {
    const nowMs = this.#clock.elapsed();
    const { requestAtMs = nowMs } = this.#owners.get(instance) ?? {};
    this.#owners.set(instance, { messageAtMs: nowMs, silentSinceMs: null, requestAtMs });
  }

  /** Returns the time since the last message of the process in ms, or `Infinity` if there was none. */
  sinceMessageMs(instance: string): number {
    const messageAtMs = this.#owners.get(instance)?.messageAtMs ?? -Infinity;
    return this.#clock.elapsed() - messageAtMs;
  }

  /** False if the process did not respond for so long that it counts as dead. */
  mayBeAlive(instance: string): boolean {
    const silentSinceMs = this.#owners.get(instance)?.silentSinceMs ?? null;
    return silentSinceMs === null || this.#clock.elapsed() - silentSinceMs < MAX_SILENCE_MS;
  }
}
