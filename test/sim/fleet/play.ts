/** Plays a history with real gateways, and checks the laws. */
import { Random } from '../engine/random.ts';
import { Simulation } from '../engine/simulation.ts';
import { callTool, OUTCOME_WITHIN_MS, type ModernResponse } from './client.ts';
import { emptyPool, PORTS, startReplica, type Replica } from './gateways.ts';
import type { History, PlannedCall } from './history.ts';
import { type JournalEntry, startLegacyServer } from './legacy-server.ts';
import { startRedisModel } from './redis-model.ts';

export interface Played {
  /** Laws that were broken. */
  readonly violations: readonly string[];
  /** What the clients saw, and the kills, in order. */
  readonly story: readonly string[];
  /** The digest of all that happened. */
  readonly digest: string;
}

const MOST_TRIES = 40;
const PAUSE_MS = { least: 300, range: 1_000 } as const;
const CLOSE_WITHIN_MS = 5_000;

/** Runs the history to its end. Call it from a macrotask. */
export function play(history: History): Played {
  emptyPool();
  const simulated = new Simulation(String(history.seed), { isCalm: history.isCalm });
  const fleet = new Fleet(simulated, history);
  simulated.run(() => fleet.play());
  return { violations: fleet.violations, story: fleet.story, digest: simulated.digest() };
}

class Fleet {
  readonly violations: string[] = [];
  readonly story: string[] = [];
  readonly #simulated: Simulation;
  readonly #history: History;
  readonly #replicas: Replica[] = [];
  #journal: readonly JournalEntry[] = [];
  #shown = 0;
  #beginMs = 0;

  constructor(simulated: Simulation, history: History) {
    this.#simulated = simulated;
    this.#history = history;
  }

  async play(): Promise<void> {
    const { calls, replicas } = this.#history;
    const simulated = this.#simulated;
    simulated.as('redis', () => startRedisModel(PORTS.redis));
    const workMs = (call: string) => calls.find(({ id }) => nameOf(id) === call)?.workMs ?? 0;
    this.#journal = simulated.as('server', () => startLegacyServer(PORTS.upstream, workMs));
    for (let count = 0; count < replicas; count++) {
      this.#replicas.push(await startReplica(String.fromCharCode('A'.charCodeAt(0) + count)));
    }
    this.#beginMs = simulated.nowMs;
    await simulated.as('client', () => Promise.all(calls.map((call) => this.#call(call))));
    this.#checkActs();
    const closed = this.#living().map(({ name, gateway }) =>
      simulated.as(name, () => gateway.close()),
    );
    await Promise.race([Promise.all(closed), simulated.sleep(CLOSE_WITHIN_MS)]);
  }

  async #call(call: PlannedCall): Promise<void> {
    const name = nameOf(call.id);
    await this.#simulated.sleep(call.atMs);
    let answers: object = {};
    for (let tries = 0; tries < MOST_TRIES; tries++) {
      const replica = this.#pick(`${name}:${tries}`);
      const isRetry = 'requestState' in answers;
      this.#tell(`${name} (${call.tool}) ${isRetry ? 'goes on' : 'begins'} at ${replica.name}`);
      const params = { name: call.tool, arguments: { call: name }, ...answers };
      const outcome = await callTool(replica.port, call.caller, params);
      if ('broken' in outcome) {
        this.#tell(`${name} breaks: ${outcome.broken}`);
        if (outcome.broken === 'timeout') {
          this.#break(6, `${name} has no outcome within ${OUTCOME_WITHIN_MS / 1_000} s`);
        }
        // Nobody may begin a call a second time that may have acted.
        if (!isRetry) return;
        await this.#pause(`${name}:${tries}`);
        continue;
      }
      const { error, result } = outcome.response;
      if (error !== undefined) {
        this.#checkError(name, outcome.response);
        if (error.data?.retryable !== true) return;
        await this.#pause(`${name}:${tries}`);
        continue;
      }
      if (result?.inputRequests === undefined) return this.#tell(`${name} has its result`);
      this.#checkQuestions(name, replica, result.inputRequests);
      answers = {
        requestState: result.requestState,
        inputResponses: acceptAll(result.inputRequests),
      };
      this.#strike(replica);
      await this.#simulated.sleep(call.thinkMs);
    }
  }

  /** Law 4: a question is shown only in the call that asked it. */
  #checkQuestions(name: string, { name: where }: Replica, questions: object): void {
    const asking = [...JSON.stringify(questions).matchAll(/call=(\w+);/g)].map(([, call]) => call);
    this.#tell(`${name} is shown at ${where} a question of ${asking.join(', ')}`);
    for (const other of asking) {
      if (other !== name) this.#break(4, `a question of ${other} is shown in ${name}`);
    }
  }

  /** Law 5: who is told that a call cannot have acted is told the truth. */
  #checkError(name: string, { error }: ModernResponse): void {
    this.#tell(`${name} fails: ${error?.data?.reason ?? error?.message}`);
    if (error?.data?.mayHaveActed !== false) return;
    if (this.#count('acted', name) > 0) this.#break(5, `${name} has acted, and it is denied`);
  }

  /** Law 5: a call acts at most once. */
  #checkActs(): void {
    for (const { id } of this.#history.calls) {
      const acts = this.#count('acted', nameOf(id));
      if (acts > 1) this.#break(5, `${nameOf(id)} acted ${acts} times`);
    }
  }

  #count(what: JournalEntry['what'], call: string): number {
    return this.#journal.filter((entry) => entry.what === what && entry.call === call).length;
  }

  /** Kills whom the history says, now that one more question was shown. */
  #strike(here: Replica): void {
    for (const { afterShown, victim } of this.#history.kills) {
      if (afterShown !== this.#shown || this.#living().length < 2) continue;
      const { name } = victim === 'here' ? here : this.#pick('victim');
      this.#tell(`${name} is killed`);
      this.#simulated.kill(name);
    }
    this.#shown++;
  }

  #pick(why: string): Replica {
    const living = this.#living();
    const replica = living[this.#below(why, living.length)];
    if (replica === undefined) throw new Error('no replica lives');
    return replica;
  }

  #living(): Replica[] {
    return this.#replicas.filter(({ name }) => !this.#simulated.isDead(name));
  }

  #pause(why: string): Promise<void> {
    return this.#simulated.sleep(PAUSE_MS.least + this.#below(`${why}:pause`, PAUSE_MS.range));
  }

  #below(why: string, end: number): number {
    return new Random(`${this.#history.seed}:${why}`).below(end);
  }

  #break(law: number, how: string): void {
    this.violations.push(`law ${law}: ${how}`);
  }

  #tell(what: string): void {
    const seconds = (this.#simulated.nowMs - this.#beginMs) / 1_000;
    this.story.push(`${seconds.toFixed(2).padStart(6)} s  ${what}`);
    this.#simulated.log(`story: ${what}`);
  }
}

function nameOf(id: number): string {
  return `call${id}`;
}

function acceptAll(questions: object): object {
  const accept = { action: 'accept', content: { name: 'x' } };
  return Object.fromEntries(Object.keys(questions).map((key) => [key, accept]));
}
