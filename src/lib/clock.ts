/** Time as a dependency: everything that waits takes a `Clock`, so that tests control the time. */

export interface Timer {
  /** Stops the timer. It does nothing if the timer has fired. */
  cancel(): void;
}

export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Monotonic milliseconds: changes of the system time do not affect it. */
  elapsed(): number;
  /** Runs `callback` once, after `afterMs` milliseconds. */
  setTimer(afterMs: number, callback: () => void): Timer;
}

/** The real clock. Its timers do not keep the process alive. */
export const systemClock: Clock = {
  now: () => Date.now(),
  elapsed: () => performance.now(),
  setTimer(afterMs, callback) {
    const timeout = setTimeout(callback, afterMs);
    timeout.unref();
    return { cancel: () => clearTimeout(timeout) };
  },
};

/** Resolves after `afterMs` milliseconds, or as soon as the signal aborts. */
export function sleep(clock: Clock, afterMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const finish = () => {
      timer.cancel();
      signal?.removeEventListener('abort', finish);
      resolve();
    };
    const timer = clock.setTimer(afterMs, finish);
    signal?.addEventListener('abort', finish);
  });
}
