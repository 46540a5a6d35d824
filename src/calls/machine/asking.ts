/** The server asks, and takes back what it asked. */
import { gatherTimer, holdTimer } from './effects.ts';
import { withoutId } from './open-requests.ts';
import { row, type Row } from './row.ts';

export const ASKING: readonly Row[] = [
  row({
    rule: '2',
    from: ['running'],
    on: 'asked',
    to: ['gathering'],
    why: 'the first input request opens the window for those that come together',
    then: ({ round, legs, consumed }, { request, atMs: sinceMs }, limits) => ({
      state: { name: 'gathering', round, legs, consumed, open: [request], sinceMs },
      effects: [gatherTimer(1, limits.gatherWindowMs, limits)],
    }),
  }),
  row({
    rule: '3',
    from: ['gathering'],
    on: 'asked',
    to: ['gathering'],
    why: 'a further one restarts the window, up to its limit',
    then: (state, event, limits) => {
      const open = [...state.open, event.request];
      const leftMs = limits.gatherLimitMs - (event.atMs - state.sinceMs);
      const windowMs = Math.max(0, Math.min(limits.gatherWindowMs, leftMs));
      return { state: { ...state, open }, effects: [gatherTimer(open.length, windowMs, limits)] };
    },
  }),
  row({
    rule: '3b',
    from: ['resuming'],
    on: 'asked',
    to: ['resuming'],
    why: 'the server asks on while answers are still being handed over',
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
    rule: '7',
    from: ['parked', 'idle'],
    on: 'asked',
    to: ['parked'],
    why: 'a question that comes while the client is away is shown in the next round',
    then: (state, event) => {
      const { round, consumed } = state;
      const open = [...(state.name === 'parked' ? state.open : []), event.request];
      return { state: { name: 'parked', round, consumed, open }, effects: [] };
    },
  }),
  row({
    rule: '6',
    from: ['gathering'],
    on: 'withdrawn',
    to: ['running', 'gathering'],
    why: 'the server takes a question back before it was shown',
    then: (state, event, limits) => {
      const open = withoutId(state.open, event.id);
      if (open.length > 0) return { state: { ...state, open }, effects: [] };
      const { round, legs, consumed } = state;
      return { state: { name: 'running', round, legs, consumed }, effects: holdTimer(limits) };
    },
  }),
  row({
    rule: '6b',
    from: ['resuming'],
    on: 'withdrawn',
    to: ['resuming'],
    why: 'the server takes a question back while answers are handed over',
    then: (state, event) => ({
      state: {
        ...state,
        // Should the server refuse the answer that is on its way, it must not be asked for again.
        posting: withoutId(state.posting, event.id),
        missing: withoutId(state.missing, event.id),
        arrived: withoutId(state.arrived, event.id),
      },
      effects: [],
    }),
  }),
  row({
    rule: '8',
    from: ['parked'],
    on: 'withdrawn',
    to: ['parked', 'idle'],
    why: 'the server takes a question back that the client is thinking about',
    then: (state, event) => {
      const open = withoutId(state.open, event.id);
      if (open.length > 0) return { state: { ...state, open }, effects: [] };
      const { round, consumed } = state;
      return { state: { name: 'idle', round, consumed }, effects: [] };
    },
  }),
];
