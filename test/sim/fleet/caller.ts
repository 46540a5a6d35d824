/** A modern client with one call: it begins it, answers its questions, and tries again, here or elsewhere. */
import { below } from '../engine/random.ts';
import { simulation } from '../engine/simulation.ts';
import { type Checker, END_WITHIN_MS, OUTCOME_WITHIN_MS } from './checker.ts';
import { isRefusal, type Outcome, type Questions, send, TOO_LATE } from './client.ts';
import { INITIALIZE } from './clients/dialects.ts';
import {
  confuse,
  forge,
  lookAround,
  readNothing,
  sendWithWrongToken,
} from './clients/strangers.ts';
import { follow } from './clients/tasks.ts';
import { PATIENT_MS, type PlannedCall } from './history.ts';
import type { Replica } from './replicas.ts';
import { asksOnItsStream } from './servers/tools.ts';
import { answerTo, formAnswerTo } from './servers/questions.ts';

export interface Surroundings {
  readonly seed: number;
  readonly checker: Checker;
  /** Where the balancer sends a request. */
  pick(why: string): Replica;
  /** When the last fault ended. */
  lastFaultMs(): number;
  /** Whether callers have tokens, which the gateway verifies. */
  readonly hasTokens: boolean;
  /** Whether clients are asked for forms of OpenAI's extension, and show them. */
  readonly showsForms: boolean;
  /** Whether nothing happens to the replicas and the server. */
  readonly isUndisturbed: boolean;
  /** Whether nothing is wrong with the store and those who use it. */
  hasStore(): boolean;
  /** Whether processes stop, and nothing else happens. */
  readonly isGentle: boolean;
  /** Whether the server has ended a call of this caller since then. */
  hasEnded(caller: string, sinceMs: number): boolean;
  /** The process that made a call; `null` if another one can have it. */
  ownerOf(call: string): string | null;
  /** How many calls a process parks at most. */
  readonly maxParked: number | null;
  /** Whether something happens after which nobody may have an outcome any more. */
  readonly mayLoseOutcomes: boolean;
  tell(what: string): void;
}

const PAUSE_MS = { least: 300, range: 1_000 } as const;
const MANY_TIMES = 12;
/** Who was told so often that the server has too much to do does not begin its call again. */
const MOST_TURNS_MISSED = 3;
const BUSY = 'upstream_busy';
const NO_STORE = 'coordination_unavailable';

export class Caller {
  readonly #call: PlannedCall;
  readonly #name: string;
  readonly #around: Surroundings;
  #tries = 0;
  #round = 0;
  #answers: Readonly<Record<string, unknown>> | null = null;
  /** All answers so far. */
  #given: Readonly<Record<string, unknown>> = {};
  /** Of a dialect: the id of what the client declared once. */
  #session: string | undefined;
  #end: Outcome | null = null;

  constructor(call: PlannedCall, around: Surroundings) {
    this.#call = call;
    this.#name = nameOf(call.id);
    this.#around = around;
  }

  get name(): string {
    return this.#name;
  }

  /** How the call ended, or its last attempt; `null` if its client gave it up. */
  get end(): Outcome | null {
    return this.#end;
  }

  /** How many questions its client was shown. */
  get rounds(): number {
    return this.#round;
  }

  async play(): Promise<void> {
    const { atMs, caller, habits } = this.#call;
    await simulation().sleep(atMs);
    if (habits.looksAround) await lookAround(this.#name, caller, this.#around);
    if (this.#call.dialect !== null) await this.#declare();
    if (habits.readsNothing) return this.#readNothing();
    let beginMs = simulation().nowMs;
    let turnsMissed = 0;
    while (await this.#request()) {
      if (this.#isOneOfTooMany()) {
        beginMs = simulation().nowMs;
        turnsMissed++;
        if (turnsMissed === MOST_TURNS_MISSED) return this.#around.checker.left(this.#name);
      }
      if (simulation().nowMs < this.#latest(beginMs, END_WITHIN_MS)) continue;
      return this.#around.checker.break(6, `${this.#name} neither ends nor fails`);
    }
  }

  /** Its caller is told that it has too many calls at once, and the others go on meanwhile. */
  #isOneOfTooMany(): boolean {
    if (this.#end?.type !== 'failed' || this.#end.reason !== BUSY) return false;
    return this.#around.hasEnded(this.#call.caller, simulation().nowMs - OUTCOME_WITHIN_MS);
  }

  async #readNothing(): Promise<void> {
    const { caller } = this.#call;
    this.#around.checker.left(this.#name);
    const request = { caller, method: 'tools/call', params: this.#params };
    await readNothing(this.#name, request, this.#around);
  }

  /** Half of the clients that speak a dialect declare what they can once, and the others in each request. */
  async #declare(): Promise<void> {
    const { seed, pick } = this.#around;
    if (below(`${seed}:${this.#name}:declares`, 2) === 0) return;
    const { caller, dialect } = this.#call;
    const { port } = pick(`${this.#name}:initialize`);
    const request = { caller, method: 'initialize', params: INITIALIZE, dialect };
    const sentMs = simulation().nowMs;
    const outcome = await send(port, request, () => this.#latest(sentMs, OUTCOME_WITHIN_MS));
    if (outcome.type === 'done') this.#session = outcome.session;
  }

  /** @returns whether the call goes on */
  async #request(): Promise<boolean> {
    const replica = this.#around.pick(`${this.#name}:${this.#tries++}`);
    this.#end = null;
    const isRetry = this.#answers !== null;
    this.#tell(`(${this.#call.tool}) ${isRetry ? 'goes on' : 'begins'} at ${replica.name}`);
    const { habits, patienceMs: retryMs, dialect } = this.#call;
    if (isRetry && habits.isForged) await forge(this.#name, this.#params, this.#around, dialect);
    if (habits.hasWrongToken && this.#around.hasTokens) {
      const request = { caller: this.#call.caller, params: this.#params, dialect };
      await sendWithWrongToken(this.#name, request, this.#around);
    }
    const { leavesAfterMs } = habits;
    if (isRetry && leavesAfterMs !== null) {
      await this.#send(replica, leavesAfterMs);
      this.#tell('is left by its client');
      this.#around.checker.left(this.#name);
      return false;
    }
    const patienceMs = isRetry ? retryMs : PATIENT_MS;
    const twin = isRetry && habits.doubles ? this.#sendAgain() : null;
    const outcome = await this.#send(replica, patienceMs);
    await twin;
    if (outcome.type === 'broken') {
      this.#tell(`breaks: ${outcome.how}`);
      // A process that stops waits only so long for a client that reads slowly.
      if (this.#around.isGentle && outcome.how === 'ECONNRESET' && !habits.readsSlowly) {
        this.#around.checker.break(6, `a drain breaks a request of ${this.#name}`);
      }
      if (outcome.how === TOO_LATE && patienceMs === PATIENT_MS) {
        const seconds = OUTCOME_WITHIN_MS / 1_000;
        this.#around.checker.break(6, `${this.#name} has no outcome within ${seconds} s`);
        return false;
      }
      // Nobody may begin a call a second time that may have acted.
      if (isRetry) await this.#pause();
      else this.#around.checker.left(this.#name);
      return isRetry;
    }
    if (isRetry) await this.#repeat(outcome);
    if (isRetry && habits.isConfused && outcome.type !== 'failed') {
      const request = { caller: this.#call.caller, params: this.#params, dialect };
      const isUsedUp = outcome.type === 'done' && this.#around.isUndisturbed;
      await confuse(this.#name, request, isUsedUp, this.#around);
    }
    return this.#take(outcome, replica);
  }

  async #take(outcome: Outcome, replica: Replica): Promise<boolean> {
    const { checker } = this.#around;
    switch (outcome.type) {
      case 'failed': {
        const { reason, mayHaveActed } = outcome;
        // A retry brings the new credentials.
        const isRetryable = outcome.isRetryable || (this.#answers !== null && isRefusal(reason));
        this.#tell(`fails: ${reason}${isRetryable ? ', to be retried' : ''}`);
        checker.failed(this.#name, outcome);
        this.#end = outcome;
        if (reason === NO_STORE && this.#around.hasStore()) {
          checker.break(6, `${this.#name} is told that there is no store`);
        }
        const isToBegin = this.#answers === null && mayHaveActed === 'no';
        if (!isRetryable && !isToBegin) {
          if (reason !== 'upstream_timeout') checker.left(this.#name);
          return false;
        }
        if (!isRetryable) checker.begunAgain(this.#name);
        await this.#pause();
        return true;
      }
      case 'task':
        return this.#follow(outcome.taskId);
      case 'asks': {
        const asking = checker.shown(this.#name, outcome.questions);
        if (this.#around.showsForms) checker.formsShown(this.#name, outcome.questions);
        this.#tell(`is shown at ${replica.name} a question of ${asking.join(', ')}`);
        this.#round++;
        if (asking.length === 0) checker.toldToRetry(this.#name);
        checker.parked(this.#name, this.#around.ownerOf(this.#name), this.#around.maxParked);
        const inputResponses = answersTo(outcome.questions, this.#call.habits.answersOneByOne);
        this.#answers = { requestState: outcome.state, inputResponses };
        this.#given = { ...this.#given, ...inputResponses };
        simulation().onMoment('shown', replica.name);
        if (asking.length === 0) await this.#pause();
        else await simulation().sleep(this.#call.thinkMs);
        return true;
      }
      default:
        this.#tell('has its result');
        this.#end = outcome;
        return false;
    }
  }

  /** Follows the task that the call has become, to its end. */
  async #follow(taskId: string): Promise<boolean> {
    this.#tell('is a task');
    const { caller, thinkMs, habits, dialect } = this.#call;
    const task = {
      ...{ name: this.#name, caller, taskId, thinkMs, isForged: habits.isForged, dialect },
      answersTo: (questions: Questions) => {
        this.#round++;
        return answersTo(questions, false);
      },
      tell: (what: string) => this.#tell(what),
    };
    const end = await follow(task, this.#around);
    this.#tell(`ends as a task: ${end.type === 'failed' ? end.reason : end.type}`);
    if (end.type === 'failed') this.#around.checker.failed(this.#name, end);
    if (end.type === 'failed') this.#around.checker.left(this.#name);
    this.#end = end.type === 'broken' ? null : end;
    return false;
  }

  /** Sends the same retry once more. Its outcome is compared, and no more. */
  async #repeat(outcome: Outcome): Promise<void> {
    this.#compare(this.#round, outcome);
    if (this.#call.isDoubled) await this.#sendAgain();
    if (!this.#call.habits.insists || outcome.type !== 'done') return;
    for (let nth = 0; nth < MANY_TIMES; nth++) await this.#sendAgain();
  }

  async #sendAgain(): Promise<void> {
    const round = this.#round;
    const replica = this.#around.pick(`${this.#name}:${this.#tries}:again`);
    this.#tell(`sends the same again to ${replica.name}`);
    const again = await this.#send(replica, PATIENT_MS);
    this.#tell(`sent again, ${again.type === 'failed' ? again.reason : again.type}`);
    this.#compare(round, again);
  }

  /** What is asked beside a call can be lost between two readers: then the second one has another outcome. */
  #compare(round: number, outcome: Outcome): void {
    const { checker, isUndisturbed, mayLoseOutcomes } = this.#around;
    if (!isUndisturbed && !asksOnItsStream(this.#call.tool)) return;
    checker.repeated(this.#name, round, outcome, mayLoseOutcomes);
  }

  #send(replica: Replica, patienceMs: number): Promise<Outcome> {
    const sentMs = simulation().nowMs;
    const untilMs =
      patienceMs === PATIENT_MS
        ? () => this.#latest(sentMs, OUTCOME_WITHIN_MS)
        : () => sentMs + patienceMs;
    const { caller, habits, dialect } = this.#call;
    this.#around.checker.retried(this.#name);
    if (this.#answers !== null) simulation().onMoment('retried', replica.name);
    const { readsSlowly, takesTasks: isTask, wantsLog } = habits;
    const request = {
      ...{ caller, method: 'tools/call', params: this.#params, readsSlowly, isTask, dialect },
      ...{ wantsLog, showsForms: this.#around.showsForms },
      onLogged: (data: string) => this.#around.checker.logged(this.#name, wantsLog, data),
      ...{ given: this.#given, ...(this.#session !== undefined && { session: this.#session }) },
    };
    return send(replica.port, request, untilMs);
  }

  get #params() {
    return { name: this.#call.tool, arguments: { call: this.#name }, ...this.#answers };
  }

  #latest(sinceMs: number, withinMs: number): number {
    return Math.max(sinceMs, this.#around.lastFaultMs()) + withinMs;
  }

  #pause(): Promise<void> {
    const why = `${this.#around.seed}:${this.#name}:${this.#tries}:pause`;
    return simulation().sleep(PAUSE_MS.least + below(why, PAUSE_MS.range));
  }

  #tell(what: string): void {
    this.#around.tell(`${this.#name} ${what}`);
  }
}

export function nameOf(id: number): string {
  return `call${id}`;
}

function answersTo(questions: Questions, isOne: boolean): Record<string, unknown> {
  const answers = Object.entries(questions).map(([key, { params }]) => {
    const isForm = params._meta?.['openai/elicitation'] !== undefined;
    const name = answerTo(params.message);
    const content = isForm ? formAnswerTo(params.message) : { name };
    return [key, { action: 'accept', content }];
  });
  return Object.fromEntries(isOne ? answers.slice(0, 1) : answers) as Record<string, unknown>;
}
