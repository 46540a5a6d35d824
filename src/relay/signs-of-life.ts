/** How the replica that serves a relayed retry shows that it is there, and how the other one notices. */
import type { Clock } from '../clock.ts';

export const SIGN_OF_LIFE_MS = 500;
/** Four missed signs of life. */
const SILENCE_MS = 2_000;

export interface SilenceWatch {
  /** Something was heard. */
  seen(): void;
  stop(): void;
}

/** Watches from now on; `silent` is called when nothing has been heard for too long. */
export function watchForSilence(clock: Clock, silent: () => void): SilenceWatch {
  let timer = clock.setTimer(SILENCE_MS, silent);
  return {
    seen: () => {
      timer.cancel();
      timer = clock.setTimer(SILENCE_MS, silent);
    },
    stop: () => timer.cancel(),
  };
}
