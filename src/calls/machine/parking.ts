/** A client that waits is sent away with a pointer: with questions, or to come again without any. */
import { askClient } from './effects.ts';
import { cancel } from './end-steps.ts';
import { park } from './park.ts';
import { row, type Row } from './row.ts';

export const PARKING: readonly Row[] = [
  row({
    rule: '41',
    from: ['gathering'],
    on: 'gathered',
    to: ['cancelling'],
    why: 'a server that asks for ever is stopped',
    when: (state, _event, limits) => state.round > limits.maxRounds,
    then: (state, _event, limits) =>
      cancel(state, { type: 'refused', reason: 'too_many_rounds' }, limits),
  }),
  row({
    rule: '40b',
    from: ['gathering'],
    on: 'gathered',
    to: ['cancelling'],
    why: 'no room to park one more call',
    when: (_state, event) => !event.mayPark,
    then: (state, _event, limits) => cancel(state, { type: 'refused', reason: 'lot_full' }, limits),
  }),
  row({
    rule: '4',
    from: ['gathering'],
    on: 'gathered',
    to: ['parked'],
    why: 'the questions go to the client, and the call waits',
    then: (state, _event, limits) => park(state, state.legs, state.open, limits),
  }),
  row({
    rule: 'hold',
    from: ['running'],
    on: 'held',
    to: ['idle'],
    why: 'no connection waits longer than the operator allows: the client comes again (MRTR, state without requests)',
    when: (state, _event, limits) => state.round <= limits.maxRounds,
    then: ({ round, legs, consumed }, _event, limits) => ({
      state: { name: 'idle', round, consumed },
      effects: askClient(legs, round, [], limits),
    }),
  }),
];
