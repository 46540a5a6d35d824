/** Effects that many rows ask for, under the names that the rows know them by. */
import type {
  CallEnd,
  CallLimits,
  Effect,
  LegId,
  LegReply,
  OpenRequest,
  RetryEvent,
} from './states.ts';
import { keysOf } from './open-requests.ts';

export function reply(legs: readonly LegId[], what: LegReply): readonly Effect[] {
  return legs.length === 0 ? [] : [{ do: 'reply', legs, reply: what }];
}

export function replyEnd(legs: readonly LegId[], end: CallEnd): readonly Effect[] {
  return reply(legs, { type: 'end', end });
}

/** Gives the legs a pointer to this round, with what is open in it, and waits for their client. */
export function askClient(
  legs: readonly LegId[],
  round: number,
  open: readonly OpenRequest[],
  limits: CallLimits,
): readonly Effect[] {
  return [...reply(legs, { type: 'inputRequired', round, keys: keysOf(open) }), parkTimer(limits)];
}

export function closeOut(requests: readonly OpenRequest[]): readonly Effect[] {
  return requests.length === 0 ? [] : [{ do: 'closeOut', requests }];
}

/** Looks at the retries again that came while the stream was being resumed. */
export function retryWaiting(retries: readonly RetryEvent[]): readonly Effect[] {
  return retries.length === 0 ? [] : [{ do: 'retryWaiting', retries }];
}

/** Frees the exchange, with which the server is done. */
export const RELEASE_CLEAN: Effect = { do: 'release', clean: true };
/** Frees the exchange, of which nobody knows what the server still does with it. */
export const RELEASE_TAINTED: Effect = { do: 'release', clean: false };

/** How long a client may stay away. */
export function parkTimer(limits: CallLimits): Effect {
  return { do: 'arm', timer: 'park', afterMs: limits.parkTtlMs };
}

/** How long the server may work on. */
export function runTimer(limits: CallLimits): Effect {
  return { do: 'arm', timer: 'run', afterMs: limits.maxDurationMs };
}

/** How long a call may take over all its rounds. */
export function callTimer(limits: CallLimits): Effect {
  return { do: 'arm', timer: 'call', afterMs: limits.callTtlMs };
}

/** How long one answer may keep a client waiting, where that is bounded. */
export function holdTimer(limits: CallLimits): readonly Effect[] {
  return limits.maxHoldMs === null ? [] : [{ do: 'arm', timer: 'hold', afterMs: limits.maxHoldMs }];
}

/** The timers of a client that begins to wait for the server. */
export function waitTimers(limits: CallLimits): readonly Effect[] {
  return [runTimer(limits), ...holdTimer(limits)];
}

/** How long to look for more input requests; a round that is full looks no longer. */
export function gatherTimer(count: number, windowMs: number, limits: CallLimits): Effect {
  const full = count >= limits.maxInputRequestsPerRound;
  return { do: 'arm', timer: 'gather', afterMs: full ? 0 : windowMs };
}
