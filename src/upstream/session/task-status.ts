/** The status of a task in words. A server need not tell of it by itself (2025-11-25, tasks, "Task Status Notification"). */
import { sleep, type Clock } from '../../lib/clock.ts';
import type { JsonObject } from '../../protocol/json.ts';
import type { Session } from './session.ts';

export interface StatusWatch {
  readonly session: Pick<Session, 'request' | 'headers'>;
  readonly clock: Clock;
  readonly taskId: string;
  /** How long the server wants a requestor to wait between two requests, in ms. */
  readonly pollIntervalMs: () => number;
  /** Whether anybody reads the status now. */
  readonly isRead: () => boolean;
  readonly tell: (task: JsonObject) => void;
}

/** However often the server suggests, in ms. */
const LEAST_INTERVAL_MS = 1_000;

/** Asks for the status as long as it is read, until the server refuses to say it, or `ended` aborts. Never rejects. */
export async function watchStatus(
  { session, clock, taskId, pollIntervalMs, isRead, tell }: StatusWatch,
  ended: AbortSignal,
): Promise<void> {
  for (;;) {
    await sleep(clock, Math.max(LEAST_INTERVAL_MS, pollIntervalMs()), ended);
    if (ended.aborted) return;
    if (!isRead()) continue;
    const asked = session.request('tasks/get', { taskId }, session.headers, ended);
    // The stream of the call says whether the server is there.
    const got = await asked.catch(() => null);
    if (ended.aborted || (got !== null && 'error' in got)) return;
    if (got !== null) tell(got.result);
  }
}
