/** The stream of the exchange ends without a response: it is resumed, or lost. */
import { attachedLegs } from './attached-legs.ts';
import { holdTimer, RELEASE_TAINTED, replyEnd, retryWaiting } from './effects.ts';
import { done } from './end-steps.ts';
import { row, type Row } from './row.ts';
import { LIVE, unbroken } from './state-groups.ts';

export const BREAKING: readonly Row[] = [
  row({
    rule: '26-27',
    from: [...LIVE],
    on: 'interrupted',
    to: ['broken'],
    why: 'the stream ended without a response and can be resumed',
    then: (state) => ({ state: { name: 'broken', interrupted: state, waiting: [] }, effects: [] }),
  }),
  row({
    rule: '28',
    from: ['broken'],
    on: 'resumed',
    to: [...LIVE],
    why: 'the stream is back: go on where it broke',
    then: ({ interrupted, waiting }, _event, limits) => ({
      state: interrupted,
      effects: [
        ...(interrupted.name === 'running' ? holdTimer(limits) : []),
        ...retryWaiting(waiting),
      ],
    }),
  }),
  row({
    rule: '29-42',
    from: [...LIVE, 'broken'],
    on: 'lost',
    to: ['done'],
    why: 'the stream is gone for good, and the call with it',
    then: (state, _event, limits) => {
      return done(unbroken(state), { type: 'lost' }, limits, [
        RELEASE_TAINTED,
        ...replyEnd(attachedLegs(state), { type: 'lost' }),
      ]);
    },
  }),
];
