/** What the client of a call does besides answering. */
import { below } from '../../engine/random.ts';

export interface Habits {
  /** Answers one question in each retry. */
  readonly answersOneByOne: boolean;
  /** Sends each retry to two replicas at once. */
  readonly doubles: boolean;
  /** After how long it closes the connection of its first retry, for good; `null` for never. */
  readonly leavesAfterMs: number | null;
  /** Whether another caller sends its retries, too. */
  readonly isForged: boolean;
  /** Sends each request with a token that is not valid before. */
  readonly hasWrongToken: boolean;
  /** Whether it sends its retries once more with another tool, other arguments and other answers. */
  readonly isConfused: boolean;
  readonly readsSlowly: boolean;
  /** Reads nothing of its first response, and does not come back. */
  readonly readsNothing: boolean;
  /** Wants the messages that the server logs. */
  readonly wantsLog: boolean;
  /** Lets the call become a task. */
  readonly takesTasks: boolean;
  /** Sends the retry that had its result many times more. */
  readonly insists: boolean;
  /** Looks at the tools and at the greeting of the server before. */
  readonly looksAround: boolean;
}

export const PLAIN_HABITS: Habits = {
  answersOneByOne: false,
  doubles: false,
  leavesAfterMs: null,
  isForged: false,
  hasWrongToken: false,
  isConfused: false,
  readsSlowly: false,
  readsNothing: false,
  wantsLog: false,
  takesTasks: false,
  insists: false,
  looksAround: false,
};

const LATEST_LEAVE_MS = 400;

/** @param call its name */
export function habitsOf(call: string): Habits {
  const oneIn = (count: number, habit: keyof Habits) => below(`${call}:${habit}`, count) === 0;
  return {
    ...PLAIN_HABITS,
    answersOneByOne: oneIn(4, 'answersOneByOne'),
    doubles: oneIn(5, 'doubles'),
    leavesAfterMs: oneIn(8, 'leavesAfterMs') ? below(`${call}:leaves`, LATEST_LEAVE_MS) : null,
    isForged: oneIn(5, 'isForged'),
    hasWrongToken: oneIn(4, 'hasWrongToken'),
    isConfused: oneIn(5, 'isConfused'),
    readsSlowly: oneIn(4, 'readsSlowly'),
    takesTasks: oneIn(4, 'takesTasks'),
    insists: oneIn(10, 'insists'),
    looksAround: oneIn(5, 'looksAround'),
  };
}

/** Each habit less. */
export function simplerHabits(habits: Habits): Habits[] {
  return (Object.keys(PLAIN_HABITS) as (keyof Habits)[])
    .filter((habit) => habits[habit] !== PLAIN_HABITS[habit])
    .map((habit) => ({ ...habits, [habit]: PLAIN_HABITS[habit] }));
}
