/** The phases of a drain: not ready, no new calls, parked calls kept, calls finished or handed over, replies delivered. */
import type { Calls } from '../calls/calls.ts';
import type { Capacity } from '../calls/registry.ts';
import { sleep, type Clock } from '../lib/clock.ts';
import type { Config } from '../config/schema.ts';
import type { PendingRequests } from '../routes/pending-requests.ts';
import type { OpenResponses } from '../lib/http.ts';
import type { Log } from '../ops/log.ts';
import type { Tasks } from '../tasks/tasks.ts';
import type { Subscriptions } from '../subscriptions/subscriptions.ts';

export interface DrainOptions {
  /** The calls of each route. */
  readonly calls: readonly Calls[];
  readonly tasks: readonly Pick<Tasks, 'stop'>[];
  readonly capacity: Capacity;
  readonly subscriptions: readonly Pick<Subscriptions, 'endAll'>[];
  readonly pendingRequests: Pick<PendingRequests, 'endAll'>;
  readonly openResponses: OpenResponses;
  readonly drain: Config['drain'];
  /** How long cancellations and last replies can take, in ms. */
  readonly graceMs: number;
  readonly clock: Clock;
  readonly log: Log;
}

const POLL_MS = 50;

/** Drains. Resolves when nothing is left to do for any client, or after the configured times. */
export async function drainCalls(options: DrainOptions): Promise<void> {
  const { calls, tasks, capacity, subscriptions, pendingRequests, openResponses } = options;
  const { drain, graceMs, clock, log } = options;
  const parked = calls.reduce((total, { parked }) => total + parked, 0);
  log.event('gateway.draining', { running: capacity.running, parked });
  await sleep(clock, drain.delayMs);
  for (const route of calls) route.stopNewCalls();
  // Listeners would wait forever. They reconnect elsewhere while calls finish here.
  for (const route of subscriptions) route.endAll();
  const isIdle = () => capacity.running + openResponses.count === 0;
  const keptUntilMs = clock.elapsed() + drain.parkedMs;
  const onlyHere = () => calls.reduce((total, { callsOnlyHere }) => total + callsOnlyHere, 0);
  const isKeeping = () => clock.elapsed() < keptUntilMs && onlyHere() > 0;
  // A call that is parked again is kept, too. A call that was retried has time to finish.
  do {
    await until(() => !isKeeping(), drain.parkedMs, clock);
    await until(() => isIdle() || isKeeping(), drain.timeoutMs, clock);
  } while (isKeeping());
  const lost = onlyHere();
  if (lost > 0) log.event('gateway.calls_lost', { calls: lost });
  for (const route of tasks) route.stop();
  for (const route of calls) route.endAll();
  pendingRequests.endAll();
  await until(isIdle, graceMs, clock);
}

async function until(isOver: () => boolean, atMostMs: number, clock: Clock): Promise<void> {
  const deadlineMs = clock.elapsed() + atMostMs;
  while (!isOver() && clock.elapsed() < deadlineMs) await sleep(clock, POLL_MS);
}
