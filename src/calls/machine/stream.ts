/** The stream of the exchange ends without a response: it is resumed, or lost. */
import { row, type Row } from './row.ts';
import { attachedLegs, LIVE } from './selectors.ts';
import { done, holdTimer, leave, RELEASE_TAINTED, replyEnd } from './steps.ts';

export const STREAM: readonly Row[] = [
  row({
    rule: 'stream-broken',
    from: LIVE,
    on: 'interrupted',
    to: LIVE,
    why: 'the stream ended without a response and can be resumed: retries wait for it meanwhile',
    when: (state) => state.stream === 'open',
    then: (state) => ({ state: { ...state, stream: 'broken' }, effects: [] }),
  }),
  row({
    rule: 'stream-resumed',
    from: LIVE,
    on: 'resumed',
    to: LIVE,
    why: 'the stream is back: the call goes on, and the retries that waited are looked at',
    when: (state) => state.stream === 'broken',
    then: (state, _event, limits) => ({
      state: { ...state, stream: 'open', waiting: [] },
      effects: state.name === 'running' ? holdTimer({ stream: 'open' }, limits) : [],
    }),
  }),
  row({
    rule: 'stream-lost',
    from: LIVE,
    on: 'lost',
    to: ['done'],
    why: 'the stream cannot be resumed, so the call is lost',
    then: (state, _event, limits) =>
      done(state, { type: 'lost' }, limits, [
        RELEASE_TAINTED,
        ...replyEnd(attachedLegs(state), { type: 'lost' }),
      ]),
  }),
  row({
    rule: 'stream-lost-after-cancel',
    from: ['cancelling'],
    on: 'lost',
    to: ['done'],
    why: 'the stream of the cancelled call cannot be resumed',
    then: (state, _event, limits) => done(state, state.end, limits, [RELEASE_TAINTED]),
  }),
  row({
    rule: 'credentials-refused',
    from: LIVE,
    on: 'shutOut',
    to: ['done'],
    why: 'the server keeps the call but refuses the credentials that are here; a retry can bring others',
    then: (state, _event, limits) => leave(state, { type: 'unauthorized' }, limits),
  }),
];
