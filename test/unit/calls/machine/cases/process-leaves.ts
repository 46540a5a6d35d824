/** The process stops, or leaves a call to another one; tasks. */
import type { CallEnd } from '../../../../../src/calls/machine/states.ts';
import {
  answering,
  arm,
  armRedeliver,
  ask,
  broken,
  cancel,
  cancelling,
  type Case,
  CONSUMED_NOW,
  done,
  drain,
  env,
  free,
  batching,
  idle,
  leave,
  lost,
  parked,
  refused,
  retry,
  running,
  settled,
  size,
  suspended,
  tellEnd,
  UNREACHABLE,
} from './notation.ts';

export const STOPPING: readonly Case[] = [
  {
    rule: 'cancelled-on-drain',
    title: 'the process stops: the waiter is told, the server too',
    from: running(),
    on: drain(),
    state: cancelling(refused('draining')),
    effects: [tellEnd([7], refused('draining')), ...cancel()],
  },
  {
    rule: 'cancelled-on-drain',
    title: 'what was batched is closed out',
    from: batching(),
    on: drain(),
    state: cancelling(refused('draining')),
    effects: [tellEnd([7], refused('draining')), ...cancel(env)],
  },
  {
    rule: 'cancelled-on-drain',
    title: 'answers on their way go on',
    from: answering({ missing: [size] }),
    on: drain(),
    state: cancelling(refused('draining'), { round: 4, consumed: CONSUMED_NOW }),
    effects: [tellEnd([9], refused('draining')), ...cancel(size)],
  },
  {
    rule: 'cancelled-on-drain',
    title: 'what is parked is closed out',
    from: parked(),
    on: drain(),
    state: cancelling(refused('draining')),
    effects: [...cancel(env)],
  },
  {
    rule: 'cancelled-on-drain',
    title: 'what has nothing to ask is just stopped',
    from: idle(),
    on: drain(),
    state: cancelling(refused('draining')),
    effects: cancel(),
  },
  {
    rule: 'cancelled-on-drain',
    title: 'the process stops while the stream is broken: all that wait are told',
    from: broken(batching(), [retry()]),
    on: drain(),
    state: cancelling(refused('draining')),
    effects: [tellEnd([9], refused('draining')), tellEnd([7], refused('draining')), ...cancel(env)],
  },
  ...(['drain', 'evict'] as const).map((type): Case => ({
    rule: type === 'drain' ? 'end-lost-on-drain' : 'end-evicted',
    title: 'the outcome that waits is lost',
    from: settled(),
    on: type === 'drain' ? drain() : { type },
    state: done(lost),
    effects: [armRedeliver],
  })),
  {
    rule: 'end-lost-on-drain',
    title: 'URLs that wait are lost, and the session is freed',
    from: suspended(),
    on: drain(),
    state: done(lost),
    effects: [free(true), armRedeliver],
  },
];

const left: CallEnd = { type: 'left' };

export const LETTING_GO: readonly Case[] = [
  {
    rule: 'left-on-drain',
    title: 'what another replica can resume is left to it: the client is asked',
    from: batching({ open: [env, size] }),
    on: drain(true),
    state: done(left),
    effects: [ask([7], 3, [env, size]), leave, armRedeliver],
  },
  {
    rule: 'left-on-drain',
    title: 'a client that waits for the outcome is told to retry',
    from: running({ stateOnly: 1 }),
    on: drain(true),
    state: done(left),
    effects: [ask([7], 3, [], 2), leave, armRedeliver],
  },
  {
    rule: 'cancelled-on-drain',
    title:
      'a client that stands no further round without a question is told that the call has ended',
    from: running({ stateOnly: 2 }),
    on: drain(true),
    state: cancelling(refused('draining')),
    effects: [tellEnd([7], refused('draining')), ...cancel()],
  },
  {
    rule: 'cancelled-on-drain',
    title: 'also a client that stands none, although its call would become a task',
    from: running(),
    on: drain(true),
    limits: { maxStateOnly: 0, becomesTask: true },
    state: cancelling(refused('draining')),
    effects: [tellEnd([7], refused('draining')), ...cancel()],
  },
  {
    rule: 'left-on-drain',
    title: 'nobody waits for a parked call',
    from: parked(),
    on: drain(true),
    state: done(left),
    effects: [leave, armRedeliver],
  },
  {
    rule: 'left-on-drain',
    title: 'or for one whose questions were taken back',
    from: idle(),
    on: drain(true),
    state: done(left),
    effects: [leave, armRedeliver],
  },
  ...[parked(), idle()].map((from) => ({
    rule: 'left-on-drain',
    title: `a call that is ${from.name} is left although its stream is being resumed`,
    from: broken(from),
    on: drain(true),
    state: done(left),
    effects: [leave, armRedeliver],
  })),
  {
    rule: 'left-on-drain',
    title: 'a retry that waits for the stream is told to retry, with the same answers',
    from: broken(batching(), [retry([env])]),
    on: drain(true),
    state: done(left),
    effects: [ask([7], 3, [env]), tellEnd([9], left), leave, armRedeliver],
  },
  {
    rule: 'end-kept-on-drain',
    title: 'an outcome that another replica can find is left to it',
    from: settled(),
    on: drain(true),
    state: done(left),
    effects: [armRedeliver],
  },
  {
    rule: 'end-kept-on-drain',
    title: 'URLs that another replica can have visited are left to it, and the session is freed',
    from: suspended(),
    on: drain(true),
    state: done(left),
    effects: [free(true), armRedeliver],
  },
];

export const RELEASED: readonly Case[] = [
  {
    rule: 'released',
    title: 'a parked call that the server keeps is left at once',
    from: parked(),
    on: { type: 'released' },
    state: done(left),
    effects: [leave, armRedeliver],
  },
  {
    rule: 'released',
    title: 'a retry that waits for its stream is told to retry, with the same answers',
    from: broken(parked(), [retry([env])]),
    on: { type: 'released' },
    state: done(left),
    effects: [tellEnd([9], left), leave, armRedeliver],
  },
];

/** In each state in which the server may still be at work. */
export const TAKEN_OVER: readonly Case[] = [
  [running(), [7]] as const,
  [batching(), [7]] as const,
  [answering(), [9]] as const,
  [parked(), []] as const,
  [idle(), []] as const,
  [broken(running(), [retry()]), [7, 9]] as const,
].map(([from, waiters]) => ({
  rule: 'taken-over',
  title: 'the waiting clients are told to retry, and the server is told nothing',
  from,
  on: { type: 'takenOver' },
  state: done(left, from.name === 'answering' ? { round: 4, consumed: CONSUMED_NOW } : {}),
  effects: [...(waiters.length > 0 ? [tellEnd(waiters, left)] : []), leave, armRedeliver],
}));

export const SHUT_OUT: readonly Case[] = TAKEN_OVER.map(({ from, state, effects }) => ({
  rule: 'credentials-refused',
  title:
    'the waiting clients are told that the credentials were refused, and the server is told nothing',
  from,
  on: { type: 'shutOut', failure: UNREACHABLE },
  state,
  effects: effects.map((effect) =>
    effect.do === 'reply' ? { ...effect, reply: { type: 'failed', failure: UNREACHABLE } } : effect,
  ),
}));

export const LEFT_TO_OWNER: readonly Case[] = TAKEN_OVER.map((one) => ({
  ...one,
  rule: 'left-to-owner',
  on: { type: 'ownerReads' },
}));

export const TASKS: readonly Case[] = [
  ...[running(), batching(), answering(), parked(), idle(), settled(), suspended()].map(
    (state): Case => ({
      rule: 'given-to-task',
      title: `a task waits for the call, which lives as long as the task (${state.name})`,
      from: state,
      on: { type: 'givenToTask', leftMs: 86_400_000 },
      state,
      effects: [arm('call', 86_400_000)],
    }),
  ),
];
