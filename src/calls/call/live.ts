/** A call that waits for its client, as the live page shows it. */
import { shownName, type LiveCall } from '../../ops/live/snapshot.ts';
import { openRequests } from '../machine/selectors.ts';
import type { StateNamed } from '../machine/states.ts';
import { whoIs } from './audit.ts';
import type { CallData } from './data.ts';

type Detached = StateNamed<'parked' | 'idle' | 'settled' | 'suspended'>;

/** Shows a call in this state. No question, no answer and no argument is in it. */
export function liveCallOf(call: CallData, state: Detached): Omit<LiveCall, 'owner'> {
  const { id, services, method, loggedTarget, origin, request, questions, beganAtMs } = call;
  const kinds = openRequests(state).flatMap(({ key }) => questions?.kindOf(key) ?? []);
  return {
    id,
    route: shownName(services.routeId),
    method: shownName(method),
    target: shownName(loggedTarget),
    who: shownName(whoIs(request.caller)),
    kinds: [...new Set(kinds)],
    state: state.name,
    round: state.round,
    startedAtMs: origin.startedAtMs,
    sinceMs: call.waitsSinceMs ?? call.lastRound?.atMs ?? beganAtMs,
    rung: call.lastRung,
    isTask: call.task !== null,
  };
}
