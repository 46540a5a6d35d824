/** The client of a call that has become a task: it polls the task, answers what is asked, and takes the end. */
import type { DialectName } from '../../../../src/dialects/dialects.ts';
import { simulation } from '../../engine/simulation.ts';
import type { Surroundings } from '../caller.ts';
import { END_WITHIN_MS, OUTCOME_WITHIN_MS } from '../checker.ts';
import { type Outcome, type Questions, send } from '../client.ts';
import { STRANGER } from './strangers.ts';

interface FollowedTask {
  /** The call. */
  readonly name: string;
  readonly caller: string;
  readonly dialect: DialectName | null;
  readonly taskId: string;
  readonly thinkMs: number;
  /** Whether another caller asks for the task, too. */
  readonly isForged: boolean;
  /** What the client answers to questions. */
  readonly answersTo: (questions: Questions) => object;
  readonly tell: (what: string) => void;
}

const POLL_MS = 500;

/** @returns how the task ended */
export async function follow(task: FollowedTask, around: Surroundings): Promise<Outcome> {
  const { name, caller, taskId, dialect } = task;
  const beginMs = simulation().nowMs;
  const ask = (method: string, params: object, by = caller) => {
    const { port } = around.pick(`${name}:${method}:${simulation().nowMs}`);
    const sentMs = simulation().nowMs;
    const request = { caller: by, method, params: { taskId, ...params }, isTask: true, dialect };
    const untilMs = () => Math.max(sentMs, around.lastFaultMs()) + OUTCOME_WITHIN_MS;
    return send(port, request, untilMs);
  };
  const answered = new Set<string>();
  for (;;) {
    if (simulation().nowMs > Math.max(beginMs, around.lastFaultMs()) + END_WITHIN_MS) {
      around.checker.break(6, `the task of ${name} neither ends nor fails`);
      return { type: 'broken', how: 'endless' };
    }
    if (task.isForged) {
      const { type } = await ask('tasks/get', {}, STRANGER);
      if (type !== 'failed' && type !== 'broken') {
        around.checker.break(4, `a stranger is told of the task of ${name}`);
      }
    }
    const outcome = await ask('tasks/get', {});
    if (outcome.type === 'done') return outcome;
    if (outcome.type === 'failed' && !outcome.isRetryable) return outcome;
    if (outcome.type === 'asks') {
      const { questions } = outcome;
      const key = JSON.stringify(questions);
      around.checker.shown(name, questions);
      if (!answered.has(key)) {
        task.tell('is asked in its task');
        await simulation().sleep(task.thinkMs);
        const taken = await ask('tasks/update', { inputResponses: task.answersTo(questions) });
        task.tell(`has answered its task: ${taken.type === 'failed' ? taken.reason : taken.type}`);
        if (taken.type === 'done') answered.add(key);
      }
    }
    await simulation().sleep(POLL_MS);
  }
}
