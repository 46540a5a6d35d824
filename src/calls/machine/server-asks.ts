/** The server asks and takes back what it asked, and what was batched goes to the client. */
import { row, type Row, cancel, batchTimer, holdTimer, park, windowMs } from './steps.ts';
import { carried, questionRound, withoutId } from './selectors.ts';

export const SERVER_ASKS: readonly Row[] = [
  row({
    rule: 'first-question',
    from: ['running'],
    on: 'asked',
    to: ['batching'],
    why: 'the first input request opens the window for those that come together',
    then: (state, { request, atMs: sinceMs }, limits) => ({
      state: { ...state, name: 'batching', open: [request], sinceMs, hasPlace: false },
      effects: [batchTimer(1, windowMs(state, limits), limits)],
    }),
  }),
  row({
    rule: 'further-question',
    from: ['batching'],
    on: 'asked',
    to: ['batching'],
    why: 'a further one restarts the window, up to its limit',
    then: (state, event, limits) => {
      const open = [...state.open, event.request];
      const sinceMs = state.sinceMs ?? event.atMs;
      const leftMs = limits.batchLimitMs - (event.atMs - sinceMs);
      const afterMs = Math.max(0, Math.min(windowMs(state, limits), leftMs));
      return {
        state: { ...state, open, sinceMs },
        effects: [batchTimer(open.length, afterMs, limits)],
      };
    },
  }),
  row({
    rule: 'question-while-answering',
    from: ['answering'],
    on: 'asked',
    to: ['answering'],
    why: 'the server asks again while answers are still on their way to it',
    then: (state, event) => ({
      state: {
        ...state,
        arrived: [...state.arrived, event.request],
        arrivedSinceMs: state.arrived.length === 0 ? event.atMs : state.arrivedSinceMs,
      },
      effects: [],
    }),
  }),
  row({
    rule: 'question-while-parked',
    from: ['parked', 'runningDetached'],
    on: 'asked',
    to: ['parked'],
    why: 'a question that comes while the client is disconnected is shown in the next round',
    then: (state, event) => {
      const open = [...(state.name === 'parked' ? state.open : []), event.request];
      return { state: { name: 'parked', ...carried(state), open }, effects: [] };
    },
  }),
  row({
    rule: 'question-withdrawn',
    from: ['batching'],
    on: 'withdrawn',
    to: ['running', 'batching'],
    why: 'the server takes a question back before it was shown',
    then: (state, event, limits) => {
      const open = withoutId(state.open, event.id);
      if (open.length > 0) return { state: { ...state, open }, effects: [] };
      return {
        state: { name: 'running', ...carried(state), waiters: state.waiters },
        effects: holdTimer(state, limits),
      };
    },
  }),
  row({
    rule: 'question-withdrawn-while-answering',
    from: ['answering'],
    on: 'withdrawn',
    to: ['answering'],
    why: 'the server takes a question back while answers are on their way to it',
    then: (state, event) => ({
      state: {
        ...state,
        // If the server refuses the answer that is on its way, it must not be asked for again.
        posting: withoutId(state.posting, event.id),
        missing: withoutId(state.missing, event.id),
        arrived: withoutId(state.arrived, event.id),
      },
      effects: [],
    }),
  }),
  row({
    rule: 'question-withdrawn-while-parked',
    from: ['parked'],
    on: 'withdrawn',
    to: ['parked', 'runningDetached'],
    why: 'the server takes back a question that the client has',
    then: (state, event) => {
      const open = withoutId(state.open, event.id);
      if (open.length > 0) return { state: { ...state, open }, effects: [] };
      return { state: { name: 'runningDetached', ...carried(state) }, effects: [] };
    },
  }),
  row({
    rule: 'round-limit-reached',
    from: ['batching'],
    on: 'batched',
    to: ['cancelling'],
    why: 'a server that never stops asking is stopped',
    when: (state, _event, limits) => questionRound(state) > limits.maxRounds,
    then: (state, _event, limits) =>
      cancel(state, { type: 'refused', reason: 'too_many_rounds' }, limits),
  }),
  row({
    rule: 'no-room-to-park',
    from: ['batching'],
    on: 'batched',
    to: ['cancelling'],
    why: 'there is no room to park one more call',
    when: (state, event) => !event.mayPark && !state.hasPlace,
    then: (state, _event, limits) =>
      cancel(state, { type: 'refused', reason: 'too_many_parked_calls' }, limits),
  }),
  row({
    rule: 'questions-shown',
    from: ['batching'],
    on: 'batched',
    to: ['parked'],
    why: 'the questions go to the client, and the call waits',
    then: (state, _event, limits) => park(state, state.waiters, state.open, limits),
  }),
];
