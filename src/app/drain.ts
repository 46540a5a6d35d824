/** The phases of a drain: not ready, no new calls, parked calls kept, calls finished or handed over, replies delivered. */
import { inBackground } from '../lib/background.ts';
import { sleep, type Clock } from '../lib/clock.ts';
import { CANCEL_GRACE_MS } from '../routes/route-calls.ts';
import type { LegacySessions } from '../front/legacy/sessions.ts';
import type { Routes } from '../routes/routes.ts';
import type { SharedServices } from '../routes/shared-services.ts';

const POLL_MS = 50;

/** Drains. Resolves when nothing is left to do for any client, or after the configured times. */
export async function drainCalls(
  { latest, all }: Pick<Routes, 'latest' | 'all'>,
  sessions: Pick<LegacySessions, 'drain' | 'close'>,
  shared: Pick<
    SharedServices,
    'config' | 'capacity' | 'pendingRequests' | 'openResponses' | 'clock' | 'log'
  >,
): Promise<void> {
  const { capacity, pendingRequests, openResponses, clock, log } = shared;
  const { drain } = shared.config;
  const calls = latest.map((route) => route.calls);
  const parked = calls.reduce((total, { parked }) => total + parked, 0);
  log.event('gateway.draining', { running: capacity.running, parked });
  await sleep(clock, drain.delayMs);
  for (const route of calls) route.stopNewCalls();
  // Listeners would wait forever. They reconnect elsewhere while calls finish here.
  for (const { subscriptions, server } of all) {
    subscriptions.endAll();
    server.processes?.endListening();
  }
  sessions.drain();
  const isIdle = () => capacity.running + openResponses.count === 0;
  const keptUntilMs = clock.elapsed() + drain.parkedMs;
  const onlyHere = () => calls.reduce((total, { callsOnlyHere }) => total + callsOnlyHere, 0);
  const isKeeping = () => clock.elapsed() < keptUntilMs && onlyHere() > 0;
  if (isKeeping()) log.event('gateway.calls_kept', { calls: onlyHere(), forMs: drain.parkedMs });
  // A call that is parked again is kept, too. A call that was retried has time to finish.
  do {
    await until(() => !isKeeping(), drain.parkedMs, clock);
    await until(() => isIdle() || isKeeping(), drain.timeoutMs, clock);
  } while (isKeeping());
  const lost = onlyHere();
  if (lost > 0) log.event('gateway.calls_lost', { calls: lost });
  for (const { tasks } of latest) tasks?.stop();
  for (const route of calls) route.endAll();
  pendingRequests.endAll();
  inBackground(sessions.close());
  await until(isIdle, CANCEL_GRACE_MS, clock);
}

async function until(isOver: () => boolean, atMostMs: number, clock: Clock): Promise<void> {
  const deadlineMs = clock.elapsed() + atMostMs;
  while (!isOver() && clock.elapsed() < deadlineMs) await sleep(clock, POLL_MS);
}
