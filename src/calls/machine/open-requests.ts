/** The input requests that wait in a state: which they are, and which of them a retry answers. */
import type { CallState, OpenRequest, RetryEvent } from './states.ts';

/** Input requests of a state that the upstream still waits for. */
export function openRequests(state: CallState): readonly OpenRequest[] {
  switch (state.name) {
    case 'gathering':
    case 'parked':
    case 'suspended':
      return state.open;
    case 'resuming':
      return [...state.missing, ...state.arrived];
    case 'broken':
      return openRequests(state.interrupted);
    default:
      return [];
  }
}

export function keysOf(requests: readonly OpenRequest[]): OpenRequest['key'][] {
  return requests.map((request) => request.key);
}

export function withoutId(requests: readonly OpenRequest[], id: OpenRequest['id']): OpenRequest[] {
  return requests.filter((request) => request.id !== id);
}

/** What a retry of the current round leaves unanswered. */
export function unansweredBy(event: RetryEvent, open: readonly OpenRequest[]): OpenRequest[] {
  return open.filter((request) => !event.answered.includes(request.key));
}

export function answeredBy(event: RetryEvent, open: readonly OpenRequest[]): OpenRequest[] {
  return open.filter((request) => event.answered.includes(request.key));
}
