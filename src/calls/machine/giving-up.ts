/** The gateway ends a call by itself: its time is up, or its place is needed. */
import { TIMERS } from './states.ts';
import { abandon, cancel, cancelBroken } from './end-steps.ts';
import { row, type Row } from './row.ts';
import { ATTACHED } from './state-groups.ts';

export const GIVING_UP: readonly Row[] = [
  row({
    rule: '24',
    from: ['parked', 'idle'],
    on: 'expired',
    to: ['cancelling'],
    why: 'nobody came back in time',
    then: (state, _event, limits) => cancel(state, { type: 'expired' }, limits),
  }),
  row({
    rule: '25',
    from: ['settled', 'suspended'],
    on: 'expired',
    to: ['done'],
    why: 'nobody came for the outcome, or for the URLs',
    then: (state, _event, limits) => abandon(state, { type: 'expired' }, limits),
  }),
  row({
    rule: '24b',
    from: [...ATTACHED],
    on: 'expired',
    to: ['cancelling'],
    why: 'the server works for longer than a call may take',
    then: (state, _event, limits) => cancel(state, { type: 'refused', reason: 'timeout' }, limits),
  }),
  row({
    rule: '24c',
    from: ['broken'],
    on: 'expired',
    to: ['cancelling'],
    why: 'the time is up while the stream is being resumed',
    // The time for work runs on while gathered questions are parked here; it bounds nothing then.
    when: (state, event) => TIMERS[state.interrupted.name].includes(event.timer),
    then: (state, event, limits) =>
      cancelBroken(
        state,
        event.timer === 'run' ? { type: 'refused', reason: 'timeout' } : { type: 'expired' },
        limits,
      ),
  }),
  row({
    rule: '40',
    from: ['parked', 'idle'],
    on: 'evict',
    to: ['cancelling'],
    why: 'the place is needed',
    then: (state, _event, limits) => cancel(state, { type: 'lost' }, limits),
  }),
  row({
    rule: '40c',
    from: ['settled', 'suspended'],
    on: 'evict',
    to: ['done'],
    why: 'the place is needed',
    then: (state, _event, limits) => abandon(state, { type: 'lost' }, limits),
  }),
];
