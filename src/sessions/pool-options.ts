/** What the sessions of a route are kept by. */
import type { Counts } from '../lib/counts.ts';
import type { ReplacementReason } from './home-sessions.ts';
import type { HomePlacement } from './placement.ts';
import type { SharingOptions } from './session-owner.ts';
import type { QueueLimits } from './permits.ts';

export interface SessionPoolOptions extends SharingOptions {
  readonly idleTimeoutMs: number;
  /** The most sessions of the route, idle ones included. */
  readonly max: number;
  readonly maxPerPrincipal: number;
  readonly queue: QueueLimits;
  /** Returns for how long a call that is left to its server now can be resumed, in ms. */
  readonly leftForMs: () => number;
  /** What several processes count together, if `max` and `maxPerPrincipal` are for all of them. */
  readonly counts?: Counts;
  /** What the route is called in the counts. */
  readonly name?: string;
  /** Where homes are, if several processes serve the same clients and reach each other. */
  readonly placement?: HomePlacement | null;
  /** Called when a session was replaced that may have had state of its caller. */
  readonly onReplaced?: (reason: ReplacementReason) => void;
}
