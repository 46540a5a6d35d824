/** Waits for changes of a task, for a client that listens to it. */
import type { Clock, Closed } from '../lib/clock.ts';

/** How often a task is looked at that another replica has, for a client that waits for it, in ms. */
const LOOK_EVERY_MS = 500;
/** How often one is looked at that is here, in ms. It tells when it changes, but not when another replica takes it over. */
const LOOK_HERE_EVERY_MS = 60_000;

/** A task that tells when it changes. */
interface WatchedTask {
  watch(listener: () => void): () => void;
}

/**
 * Waits until a task may have changed.
 * @param task `undefined` if another replica has it, which does not tell when it changes
 */
export function untilChanged(
  task: WatchedTask | undefined,
  clock: Clock,
  ended: Closed,
  atMostMs = task === undefined ? LOOK_EVERY_MS : LOOK_HERE_EVERY_MS,
): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      ended.removeEventListener('abort', done);
      timer.cancel();
      unwatch?.();
      resolve();
    };
    const timer = clock.setTimer(atMostMs, done);
    const unwatch = task?.watch(done);
    ended.addEventListener('abort', done);
    if (ended.aborted) done();
  });
}
