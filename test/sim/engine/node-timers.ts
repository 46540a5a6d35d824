/**
 * The timers of Node.js, of which each belongs to the process of the simulation that started it. What a dead process has left
 * never fires; what falls due while a process is frozen fires when it goes on, unless that process cancels it first.
 */
import {
  type FastTimer,
  internals,
  type NodeTimer,
  TICK_OF_UNDICI,
  type TimerList,
} from './node-internals.ts';

const { timerLists, undiciTimers } = internals;
const FAST_TIMER_FIRED = -2;
/** The name of what stands for the callback of a timer that fell due in a frozen process. */
const WITHHELD = 'withheld';

/** How it is with a process, and how to do something as soon as it goes on. */
export interface Processes {
  ownerOf(timer: NodeTimer): string;
  /** Whether all go on as they should. */
  readonly allRun: boolean;
  isDead(owner: string): boolean;
  isFrozen(owner: string): boolean;
  /** Runs `callback` when the process goes on. */
  later(callback: () => void, owner: string): void;
}

/** When the next timer is due, by the clock of Node.js. */
export function nextTimerMs(): number {
  return timerLists.timerListQueue.peek()?.expiry ?? Infinity;
}

/** Before what is due fires: nothing of it fires in a process that does not go on. */
export function withholdTimers(nowMs: number, processes: Processes): void {
  if (processes.allRun) return;
  for (const list of Object.values(timerLists.timerListMap)) {
    if (list.expiry > nowMs) continue;
    for (const timer of timersOf(list)) {
      if (nowMs - timer._idleStart < list.msecs) break;
      withhold(timer, processes);
    }
  }
}

/** The one timer of all timers of undici belongs to whoever needed it first, and fires for all. */
function withhold(timer: NodeTimer, processes: Processes): void {
  const callback = timer._onTimeout;
  if (callback === null || callback === undefined || callback.name === TICK_OF_UNDICI) return;
  const owner = processes.ownerOf(timer);
  if (processes.isDead(owner)) {
    timer._onTimeout = () => {};
    timer._repeat = null;
  } else if (processes.isFrozen(owner) && callback.name !== WITHHELD) {
    timer._onTimeout = withheld;
    const args = timer._timerArgs ?? [];
    let isWaiting = false;
    function withheld(this: unknown): void {
      if (isWaiting) return;
      isWaiting = true;
      processes.later(() => {
        isWaiting = false;
        // It was cancelled.
        if (timer._onTimeout !== withheld) return;
        timer._onTimeout = callback ?? null;
        const wasRefreshed = Boolean(timer._idleNext) && timer._repeat === null;
        if (!wasRefreshed) callback?.apply(timer, args);
      }, owner);
    }
  }
}

/** How many timers of a process are to fire. */
export function countTimers(owner: string, processes: Pick<Processes, 'ownerOf'>): number {
  let count = 0;
  for (const list of Object.values(timerLists.timerListMap)) {
    for (const timer of timersOf(list)) {
      const isPending = timer._onTimeout && timer._onTimeout.name !== TICK_OF_UNDICI;
      if (isPending && processes.ownerOf(timer) === owner) count++;
    }
  }
  return count;
}

/** What a simulation leaves behind would fire in the next one. */
export function clearTimers(): void {
  const { timerListQueue, timerListMap } = timerLists;
  for (let list = timerListQueue.peek(); list !== undefined; list = timerListQueue.peek()) {
    for (const timer of timersOf(list)) clearTimeout(timer as unknown as NodeJS.Timeout);
    if (timerListQueue.peek() !== list) continue;
    timerListQueue.shift();
    delete timerListMap[list.msecs];
  }
  undiciTimers.reset();
}

/** The timers of a list, the first due first. */
function timersOf(list: TimerList): NodeTimer[] {
  const timers: NodeTimer[] = [];
  for (let at = list._idlePrev; at !== list && at !== null; at = at._idlePrev) {
    timers.push(at as NodeTimer);
  }
  return timers;
}

/** Makes each timer of undici fire as the process that started it, and only if that goes on. */
export function bindTimersOfUndici(
  owner: () => string,
  as: (owner: string, callback: () => void) => void,
  processes: () => Pick<Processes, 'isDead' | 'isFrozen' | 'later'> | null,
): void {
  const start = undiciTimers.setFastTimeout;
  undiciTimers.setFastTimeout = (callback, delayMs, arg) => {
    const starter = owner();
    const fire = (given: unknown) => {
      const now = processes();
      if (now === null || now.isDead(starter)) return;
      if (!now.isFrozen(starter)) return as(starter, () => callback(given));
      now.later(() => {
        if (timer._state === FAST_TIMER_FIRED) callback(given);
      }, starter);
    };
    const timer: FastTimer = start(fire, delayMs, arg);
    return timer;
  };
}
