/** The phases of leaving: unready, no new calls, parked calls kept, calls finished or handed over, answers delivered. */
import type { CallRegistry } from '../calls/calls.ts';
import type { RunningCalls } from '../calls/running-calls.ts';
import { sleep, type Clock } from '../lib/clock.ts';
import type { Config } from '../config/config.ts';
import type { OpenResponses } from '../lib/open-responses.ts';
import type { Log } from '../ops/log.ts';
import type { Subscriptions } from '../subscriptions/subscriptions.ts';

export interface Draining {
  readonly bridges: readonly CallRegistry[];
  readonly runningCalls: RunningCalls;
  readonly subscriptions: readonly Pick<Subscriptions, 'endAll'>[];
  readonly openResponses: OpenResponses;
  readonly drain: Config['drain'];
  /** How long what was ended may take to tell its server and its client, in ms. */
  readonly graceMs: number;
  readonly clock: Clock;
  readonly log: Log;
}

const LOOK_EVERY_MS = 50;

/** Resolves when nothing is left to do for any client, or when the time for it is over. */
export async function drainCalls(draining: Draining): Promise<void> {
  const { bridges, runningCalls, subscriptions, openResponses, drain, graceMs, clock, log } =
    draining;
  const parked = bridges.reduce((total, bridge) => total + bridge.parked, 0);
  log.event('gateway.draining', { running: runningCalls.count, parked });
  await sleep(clock, drain.delayMs);
  for (const bridge of bridges) bridge.stopTaking();
  // Listeners would wait for ever; ended now, they are elsewhere while calls are finished here.
  for (const route of subscriptions) route.endAll();
  const isIdle = () => runningCalls.count + openResponses.count === 0;
  const keptUntilMs = clock.elapsed() + drain.parkedMs;
  const isKeeping = () =>
    clock.elapsed() < keptUntilMs && bridges.some((bridge) => bridge.holdsParkedCalls);
  // A call that is parked again meanwhile is kept, too; one that was retried has time to finish.
  do {
    await until(() => !isKeeping(), drain.parkedMs, clock);
    await until(() => isIdle() || isKeeping(), drain.timeoutMs, clock);
  } while (isKeeping());
  for (const bridge of bridges) bridge.endAll();
  await until(isIdle, graceMs, clock);
}

async function until(isOver: () => boolean, atMostMs: number, clock: Clock): Promise<void> {
  const deadlineMs = clock.elapsed() + atMostMs;
  while (!isOver() && clock.elapsed() < deadlineMs) await sleep(clock, LOOK_EVERY_MS);
}
