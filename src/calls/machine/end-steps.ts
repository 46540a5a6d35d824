/** The steps by which a call comes to its end, whatever the reason. */
import type {
  CallEnd,
  CallLimits,
  ConsumedRetry,
  Effect,
  Live,
  StateNamed,
  Step,
} from './states.ts';
import { attachedLegs } from './attached-legs.ts';
import { RELEASE_CLEAN, replyEnd } from './effects.ts';
import { openRequests } from './open-requests.ts';

/** Ends a call whose exchange is over already. */
export function done(
  { round, consumed }: { readonly round: number; readonly consumed: ConsumedRetry | null },
  end: CallEnd,
  limits: CallLimits,
  effects: readonly Effect[],
): Step {
  return {
    state: { name: 'done', round, consumed, end },
    effects: [...effects, { do: 'arm', timer: 'redeliver', afterMs: limits.redeliverMs }],
  };
}

/**
 * Ends a call whose exchange still runs: tells the server, answers what is open, waits a moment.
 * Answers that are on their way go on: closing their requests out too would answer them twice.
 */
export function cancel(state: Live, end: CallEnd, limits: CallLimits): Step {
  const { round, consumed } = state;
  return {
    state: { name: 'cancelling', round, consumed, end },
    effects: [
      ...replyEnd(attachedLegs(state), end),
      { do: 'cancelUpstream', open: openRequests(state) },
      { do: 'arm', timer: 'grace', afterMs: limits.cancelGraceMs },
    ],
  };
}

/** The same while the stream is being resumed: the retries that wait for it are told, too. */
export function cancelBroken(state: StateNamed<'broken'>, end: CallEnd, limits: CallLimits): Step {
  const ended = cancel(state.interrupted, end, limits);
  const legs = state.waiting.map((retry) => retry.leg);
  return { state: ended.state, effects: [...replyEnd(legs, end), ...ended.effects] };
}

/** Ends a call that nobody came back for. Of a settled one the exchange is free already. */
export function abandon(
  state: StateNamed<'settled' | 'suspended'>,
  end: CallEnd,
  limits: CallLimits,
): Step {
  return done(state, end, limits, state.name === 'suspended' ? [RELEASE_CLEAN] : []);
}
