/** What happens to a call whose stream is being resumed, and came another way or had begun before. */
import type { CallEvent, CallLimits, EventName, StateName, StateNamed, Step } from './states.ts';
import { retryWaiting } from './effects.ts';
import { firstMatch } from './first-match.ts';
import { row, type Row } from './row.ts';
import { isLive } from './state-groups.ts';

/** @param unbroken the rows that move what the break interrupted */
export function throughBreak(unbroken: readonly Row[]): readonly Row[] {
  const through = (rule: string, on: EventName, to: readonly StateName[], why: string): Row =>
    row({
      rule,
      from: ['broken'],
      on,
      to,
      why,
      then: (state, event, limits) => moveInterrupted(unbroken, state, event, limits),
    });
  return [
    through(
      '28b',
      'outcome',
      ['done', 'settled'],
      'the outcome came another way before the stream was resumed',
    ),
    through(
      '28c',
      'asked',
      ['broken'],
      'a question came another way before the stream was resumed',
    ),
    through(
      '28d',
      'withdrawn',
      ['broken'],
      'a withdrawal came another way before the stream was resumed',
    ),
    through(
      '28e',
      'posted',
      ['broken', 'cancelling'],
      'the answers were taken while the stream broke',
    ),
    through(
      '28f',
      'postRefused',
      ['broken', 'done'],
      'the answers were not taken while the stream broke',
    ),
    through(
      '28g',
      'gathered',
      ['broken', 'cancelling'],
      'questions that were gathered go to the client all the same',
    ),
    through(
      '28h',
      'urlsRequired',
      ['suspended', 'done'],
      'the call ended with URLs to visit, which came another way before the stream was resumed',
    ),
  ];
}

/** Lets an event act on what the broken stream interrupted; if that lives on, it is still broken. */
function moveInterrupted(
  unbroken: readonly Row[],
  state: StateNamed<'broken'>,
  event: CallEvent,
  limits: CallLimits,
): Step {
  const inner = firstMatch(unbroken, state.interrupted, event, limits);
  if (isLive(inner.state)) {
    return {
      state: { ...state, interrupted: inner.state },
      // How long one answer may take counts again when the stream is back.
      effects: inner.effects.filter((effect) => effect.do !== 'arm' || effect.timer !== 'hold'),
    };
  }
  return { state: inner.state, effects: [...inner.effects, ...retryWaiting(state.waiting)] };
}
