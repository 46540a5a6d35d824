/** What the operator is told of the past of a call: how its retries reached it, and how long it waited for its client. In ms since the epoch. */
import type { Recovery } from '../../ops/request-events.ts';

export class CallHistory {
  /** When the call began in this process. */
  readonly beganAtMs: number;
  #waitsSinceMs: number | null = null;
  #waitedMs = 0;
  /** When it ended or was cancelled; 0 before. */
  overSinceMs = 0;
  /** How the next retry that continues the call reaches it. */
  recoveredBy: 'here' | 'reattach' = 'here';
  /** How the last one did; `null` before the first. */
  lastRecoveredBy: Recovery | null = null;

  constructor(nowMs: number) {
    this.beganAtMs = nowMs;
  }

  /** Since when the call waits for its client; `null` if it does not. */
  get waitsSinceMs(): number | null {
    return this.#waitsSinceMs;
  }

  /** How long the server had for the call in this process, which is over. */
  get workMs(): number {
    return this.overSinceMs - this.beganAtMs - this.#waitedMs;
  }

  /** Notes that the call waited for its client before it came to this process. Another clock can be ahead. */
  waitedBefore(sinceMs: number): void {
    this.#waitsSinceMs = Math.min(sinceMs, this.beganAtMs);
  }

  /** Notes whether the call waits for its client now. @returns how long it has waited, if that is over; in ms */
  noteWaiting(waits: boolean, now: () => number): number | null {
    const since = this.#waitsSinceMs;
    if (waits === (since !== null)) return null;
    const nowMs = now();
    this.#waitsSinceMs = since === null ? nowMs : null;
    if (since === null) return null;
    this.#waitedMs += nowMs - Math.max(since, this.beganAtMs);
    return nowMs - since;
  }

  /** Notes that a retry was served. */
  continued(): void {
    this.lastRecoveredBy = this.recoveredBy;
    this.recoveredBy = 'here';
  }
}
