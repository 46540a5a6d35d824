/** How the two replicas of a relayed retry show each other that they are there, and how they notice. */
import type { Clock, Timer } from '../../lib/clock.ts';

export const SIGN_OF_LIFE_MS = 500;
/** Six missed signs of life: the owner is not waited for any longer, which does not say that it is dead. */
export const OWNER_SILENCE_MS = 3_000;
/**
 * The same for an owner that has taken the retry, and may have much to do: large results, for many at once.
 * Over HTTP its death shows in the connection, so that more patience costs nothing then.
 */
export const BUSY_OWNER_SILENCE_MS = { http: 30_000, redis: 10_000 } as const;
/**
 * The owner carries a retry out only within this time of asking for its confirmation. The asker waits for
 * longer than that after the question, so that it has given up nothing that is carried out.
 */
export const CONFIRMED_WITHIN_MS = 2_000;
/**
 * The one that asked is given up, and its client with it. Longer, since that cancels the call, and longer
 * than a mailbox may hang unread.
 */
export const ASKER_SILENCE_MS = 6_000;
/**
 * How long an owner's answer over HTTP can stay unread before its reader is given up, in ms. A client that is
 * behind holds the reader up, so this is as long as an owner at work can be silent.
 */
export const UNREAD_ANSWER_MS = BUSY_OWNER_SILENCE_MS.http;
/** How long the client of a retry that was given up may take to come again. */
export const COMING_AGAIN_MS = 30_000;

export interface SilenceWatch {
  /** Something was heard. */
  seen(): void;
  stop(): void;
}

/**
 * Watches from now on; `silent` is called when nothing has been heard for so many ms, which are counted in
 * missed signs of life. A process that stalls finds its timers due before what came meanwhile is read: then
 * a single sign counts as missed, and what came is read before the next one can be.
 * @param isBehind whether something came that is not read yet: no sign counts as missed meanwhile
 */
export function watchForSilence(
  clock: Clock,
  afterMs: number,
  silent: () => void,
  isBehind = () => false,
): SilenceWatch {
  let leftMs = afterMs;
  const wait = (): Timer => {
    const waitMs = Math.min(leftMs, SIGN_OF_LIFE_MS);
    return clock.setTimer(waitMs, () => {
      if (!isBehind()) leftMs -= waitMs;
      if (leftMs > 0) timer = wait();
      else silent();
    });
  };
  let timer = wait();
  return {
    seen: () => {
      timer.cancel();
      leftMs = afterMs;
      timer = wait();
    },
    stop: () => timer.cancel(),
  };
}

/** Gives a sign of life again and again until the function that it gives back is called. */
export function giveSigns(clock: Clock, sign: () => void): () => void {
  const give = () => {
    timer = clock.setTimer(SIGN_OF_LIFE_MS, give);
    sign();
  };
  let timer = clock.setTimer(SIGN_OF_LIFE_MS, give);
  return () => timer.cancel();
}
