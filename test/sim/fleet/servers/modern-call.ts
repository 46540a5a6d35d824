/**
 * A request of a call at a simulated server of 2026-07-28, which keeps nothing between two of them: the tool runs from its begin
 * each time, with the answers so far, and without doing again what it has done.
 */
import { Random } from '../../engine/random.ts';
import { simulation } from '../../engine/simulation.ts';
import type { ServerOptions } from './sessions.ts';
import { runTool, type Tool } from './tools.ts';
import { type Report, workOf } from './work.ts';

/** How far a call is. */
export interface Progress {
  /** The answers so far, in the order of the questions. */
  readonly answers: readonly string[];
  /** How many steps of its work are done. */
  readonly done: number;
  /** How often it was sent again before it began. */
  readonly dallied: number;
}

export const NOT_BEGUN: Progress = { answers: [], done: 0, dallied: 0 };

/** What a request comes to: the answers to all questions, or what the tool still wants to know. */
export type Step =
  | { readonly type: 'done'; readonly answers: readonly string[] }
  | { readonly type: 'asks'; readonly questions: readonly string[]; readonly done: number };

/**
 * Runs the tool as far as it comes.
 * @param report sends what the tool says about its progress; `null` if nobody wants that
 */
export async function runStep(
  { call, tool }: { readonly call: string; readonly tool: Tool },
  { answers, done: before }: Progress,
  options: ServerOptions,
  report: ((report: Report) => unknown) | null,
  act: () => void,
): Promise<Step> {
  let asked = 0;
  let steps = 0;
  let done = before;
  const questions: string[] = [];
  const stuck = Promise.withResolvers<Step>();
  /** Whether a step is to be done now. */
  const isNext = () => {
    steps += 1;
    if (steps <= done) return false;
    done = steps;
    return true;
  };
  const random = new Random(`${simulation().seed}:works:${call}`);
  const works = workOf(call, random, options, report);
  const ended = runTool(tool, {
    ask: () => {
      const nth = asked;
      asked += 1;
      const answer = answers[nth];
      if (answer !== undefined) return Promise.resolve(answer);
      questions.push(`${call}-${asked}`);
      // A tool asks all that it wants to know at once in one go.
      queueMicrotask(() => stuck.resolve({ type: 'asks', questions, done }));
      return new Promise(() => {});
    },
    // It has nothing to take back.
    askInVain: async () => {},
    work: async () => (isNext() ? works.work() : undefined),
    pause: async () => (isNext() ? works.pause() : undefined),
    report: async () => (isNext() ? works.report() : undefined),
    act: () => {
      if (isNext()) act();
    },
  });
  return Promise.race([stuck.promise, ended.then((all): Step => ({ type: 'done', answers: all }))]);
}
