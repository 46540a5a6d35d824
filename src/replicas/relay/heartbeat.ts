/** How the two replicas of a relayed retry show each other that they are there, and how they notice. */
import type { Clock, Timer } from '../../lib/clock.ts';

const SIGN_OF_LIFE_MS = 500;
/** Four missed signs of life: the owner is given up, and the next rung serves. */
export const OWNER_SILENCE_MS = 2_000;
/**
 * The one that asked is given up, and its client with it. Longer, since that cancels the call, and longer
 * than a mailbox may hang unread.
 */
export const ASKER_SILENCE_MS = 6_000;

export interface SilenceWatch {
  /** Something was heard. */
  seen(): void;
  stop(): void;
}

/**
 * Watches from now on; `silent` is called when nothing has been heard for so many ms, which are counted in
 * missed signs of life. A process that stalls finds its timers due before what came meanwhile is read: then
 * a single sign counts as missed, and what came is read before the next one can be.
 */
export function watchForSilence(clock: Clock, afterMs: number, silent: () => void): SilenceWatch {
  let leftMs = afterMs;
  const wait = (): Timer => {
    const waitMs = Math.min(leftMs, SIGN_OF_LIFE_MS);
    return clock.setTimer(waitMs, () => {
      leftMs -= waitMs;
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
    sign();
    timer = clock.setTimer(SIGN_OF_LIFE_MS, give);
  };
  let timer = clock.setTimer(SIGN_OF_LIFE_MS, give);
  return () => timer.cancel();
}
