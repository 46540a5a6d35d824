/** What a retry is to the round that a state has come to: its answer, or one that was had before. */
import type { ConsumedRetry, RetryEvent, StateNamed } from './states.ts';

/** What a state comes to whose round the retry uses up: its leg waits for the server. */
export function runningFor(
  event: RetryEvent,
  { round }: { readonly round: number },
): StateNamed<'running'> {
  return { name: 'running', round: round + 1, legs: [event.leg], consumed: consumedBy(event) };
}

export function consumedBy({ round, answersDigest }: RetryEvent): ConsumedRetry {
  return { round, answersDigest };
}

/** The retry brings the pointer of the round that the client is to answer. */
export function isOfRound(state: { readonly round: number }, event: RetryEvent): boolean {
  return event.round === state.round;
}

/** The retry repeats the one that was accepted last, to the letter. */
export function repeats(
  { consumed }: { readonly consumed: ConsumedRetry | null },
  event: RetryEvent,
): boolean {
  return (
    consumed !== null &&
    consumed.round === event.round &&
    consumed.answersDigest === event.answersDigest
  );
}
