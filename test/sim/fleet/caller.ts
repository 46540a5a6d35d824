/** A modern client with one call: it begins it, answers its questions, and tries again, here or elsewhere. */
import { below } from '../engine/random.ts';
import { simulation } from '../engine/simulation.ts';
import { type Checker, END_WITHIN_MS, OUTCOME_WITHIN_MS } from './checker.ts';
import { callTool, type ModernResponse, type Outcome, TOO_LATE } from './client.ts';
import { PATIENT_MS, type PlannedCall } from './history.ts';
import type { Replica } from './replicas.ts';

export interface Surroundings {
  readonly seed: number;
  readonly checker: Checker;
  /** Where the balancer sends a request. */
  pick(why: string): Replica;
  /** When the last fault ended. */
  lastFaultMs(): number;
  tell(what: string): void;
}

const PAUSE_MS = { least: 300, range: 1_000 } as const;

export class Caller {
  readonly #call: PlannedCall;
  readonly #name: string;
  readonly #around: Surroundings;
  #tries = 0;
  #round = 0;
  #answers: Readonly<Record<string, unknown>> | null = null;

  constructor(call: PlannedCall, around: Surroundings) {
    this.#call = call;
    this.#name = nameOf(call.id);
    this.#around = around;
  }

  async play(): Promise<void> {
    await simulation().sleep(this.#call.atMs);
    const beginMs = simulation().nowMs;
    while (await this.#request()) {
      if (simulation().nowMs < this.#latest(beginMs, END_WITHIN_MS)) continue;
      return this.#around.checker.break(6, `${this.#name} neither ends nor fails`);
    }
  }

  /** @returns whether the call goes on */
  async #request(): Promise<boolean> {
    const replica = this.#around.pick(`${this.#name}:${this.#tries++}`);
    const isRetry = this.#answers !== null;
    this.#tell(`(${this.#call.tool}) ${isRetry ? 'goes on' : 'begins'} at ${replica.name}`);
    const patienceMs = isRetry ? this.#call.patienceMs : PATIENT_MS;
    const outcome = await this.#send(replica, patienceMs);
    if ('broken' in outcome) {
      this.#tell(`breaks: ${outcome.broken}`);
      if (outcome.broken === TOO_LATE && patienceMs === PATIENT_MS) {
        const seconds = OUTCOME_WITHIN_MS / 1_000;
        this.#around.checker.break(6, `${this.#name} has no outcome within ${seconds} s`);
        return false;
      }
      // Nobody may begin a call a second time that may have acted.
      if (isRetry) await this.#pause();
      return isRetry;
    }
    if (isRetry) await this.#repeat(outcome.response);
    return this.#take(outcome.response, replica);
  }

  async #take({ error, result }: ModernResponse, replica: Replica): Promise<boolean> {
    const { checker } = this.#around;
    if (error !== undefined) {
      const { reason, retryable } = error.data ?? {};
      this.#tell(`fails: ${reason ?? error.message}${retryable === true ? ', to be retried' : ''}`);
      checker.failed(this.#name, { error });
      if (retryable === true) await this.#pause();
      return retryable === true;
    }
    if (result?.inputRequests === undefined) {
      this.#tell('has its result');
      return false;
    }
    const asking = checker.shown(this.#name, result.inputRequests);
    this.#tell(`is shown at ${replica.name} a question of ${asking.join(', ')}`);
    this.#round++;
    this.#answers = {
      requestState: result.requestState,
      inputResponses: acceptAll(result.inputRequests),
    };
    simulation().onMoment('shown', replica.name);
    await simulation().sleep(this.#call.thinkMs);
    return true;
  }

  /** Sends the same retry once more. Its outcome is compared, and no more. */
  async #repeat(response: ModernResponse): Promise<void> {
    const { checker } = this.#around;
    checker.repeated(this.#name, this.#round, response);
    if (!this.#call.isDoubled) return;
    const replica = this.#around.pick(`${this.#name}:${this.#tries}:again`);
    this.#tell(`sends the same again to ${replica.name}`);
    const again = await this.#send(replica, PATIENT_MS);
    if ('broken' in again) return this.#tell(`sent again, breaks: ${again.broken}`);
    const { error } = again.response;
    this.#tell(
      `sent again, ${error === undefined ? 'has an outcome' : (error.data?.reason ?? error.message)}`,
    );
    checker.repeated(this.#name, this.#round, again.response);
  }

  #send(replica: Replica, patienceMs: number): Promise<Outcome> {
    const sentMs = simulation().nowMs;
    const untilMs =
      patienceMs === PATIENT_MS
        ? () => this.#latest(sentMs, OUTCOME_WITHIN_MS)
        : () => sentMs + patienceMs;
    const { caller, tool } = this.#call;
    const params = { name: tool, arguments: { call: this.#name }, ...this.#answers };
    if (this.#answers !== null) simulation().onMoment('retried', replica.name);
    return callTool(replica.port, caller, params, untilMs);
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

function acceptAll(questions: object): object {
  const accept = { action: 'accept', content: { name: 'x' } };
  return Object.fromEntries(Object.keys(questions).map((key) => [key, accept]));
}
