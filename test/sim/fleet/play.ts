/** Plays a history with real gateways, heals everything, and checks the laws. */
import { below } from '../engine/random.ts';
import { Simulation } from '../engine/simulation.ts';
import { network } from '../network/tcp-model.ts';
import { processes } from '../processes/process-model.ts';
import { runInShell } from '../processes/shell.ts';
import { RedisModel } from '../store/redis-model.ts';
import { checkBeside, type Quiet } from './beside.ts';
import { Caller, nameOf } from './caller.ts';
import { Checker } from './checker.ts';
import { nameOfLegacy } from './clients/legacy-plans.ts';
import { LegacySession } from './clients/legacy-session.ts';
import { Listening } from './clients/listener.ts';
import { isGentle, leavesStore, losesData, type Moment } from './faults.ts';
import { type History, lastCallsOf } from './history.ts';
import {
  checkOutcomes,
  checkReconnects,
  checkUndisturbed,
  isUndisturbed,
  isAboutToListen,
} from './outcomes.ts';
import { checkSession } from './legacy-outcomes.ts';
import { emptyPool, forkWorkers, PORTS, Replica } from './replicas.ts';
import { Journal } from './servers/journal.ts';
import { startServer } from './servers/listener.ts';
import { issueTokens, startIssuer } from './tokens.ts';
import type { Changing } from './servers/requests.ts';
import type { ServerOptions } from './servers/sessions.ts';
import { ModernStdioServers } from './servers/modern-stdio.ts';
import { StdioServers } from './servers/stdio.ts';
import { isModern, isOverStdio } from './servers/traits.ts';
import { Strikes } from './strikes.ts';

export interface Played {
  /** Laws that were broken. */
  readonly violations: readonly string[];
  /** What the clients saw, and the faults, in order. */
  readonly story: readonly string[];
  /** The digest of all that happened. */
  readonly digest: string;
  /** All that happened. */
  readonly log: readonly string[];
}

const CLOSE_WITHIN_MS = 15_000;
const SETTLE_MS = 75_000;
/** So long the last outcomes are kept. */
const REDELIVER_MS = 121_000;
/** So long it takes at most until there are queues again in the store, and what went through them is over. */
const QUEUES_BACK_WITHIN_MS = 3_000;
/** How long after the last call was begun faults can still strike. */
const HEAL_AFTER_MS = 25_000;
/** So long it takes at most until nobody reads what a client has left. */
const LEFT_WITHIN_MS = 15_000;
/** One request in so many goes to a replica that is frozen or drains, as a balancer sees that late. */
const MISLED_ONE_IN = 4;

/** Runs the history to its end. Call it from a macrotask. */
export function play(history: History): Played {
  emptyPool();
  const simulated = new Simulation(String(history.seed), { isCalm: history.isCalm });
  const fleet = new Fleet(simulated, history);
  const { violations } = fleet.checker;
  const onExit = new Set(process.listeners('exit'));
  try {
    simulated.run(() => fleet.play());
  } catch (error) {
    violations.push(`law 0: ${error instanceof Error ? error.stack : String(error)}`);
  }
  // The primary of a gateway that was killed has left them.
  for (const left of process.listeners('exit')) if (!onExit.has(left)) process.off('exit', left);
  violations.push(...simulated.crashes.map((crash) => `law 0: ${crash}`));
  return { violations, story: fleet.story, digest: simulated.digest(), log: simulated.lines };
}

class Fleet {
  readonly checker = new Checker(() => this.#journal.entries);
  readonly story: string[] = [];
  readonly #simulated: Simulation;
  readonly #history: History;
  readonly #replicas: Replica[];
  readonly #journal = new Journal();
  #beginMs = 0;

  constructor(simulated: Simulation, history: History) {
    this.#simulated = simulated;
    this.#history = history;
    this.#replicas = Array.from(
      { length: history.replicas },
      (_, nth) => new Replica(nth, history),
    );
  }

  async play(): Promise<void> {
    const { calls, faults, seed, server: traits, gateway } = this.#history;
    const hasTokens = gateway.identity !== 'none';
    const simulated = this.#simulated;
    if (hasTokens) {
      issueTokens();
      simulated.as('issuer', () => startIssuer(PORTS.issuer));
    }
    const redis = simulated.as('redis', () => new RedisModel(PORTS.redis, 'redis'));
    const hasLostData = faults.some(losesData);
    redis.store.onClaim = (claim) => this.checker.claimed(claim, hasLostData);
    redis.store.onSet = (key) => this.checker.kept(key, simulated.nowMs);
    const works = new Map(callsOf(this.#history).map(({ name, workMs }) => [name, workMs]));
    const workMs = (call: string) => works.get(call) ?? 0;
    const callerOf = new Map(calls.map(({ id, caller }) => [nameOf(id), caller]));
    const takesTokens = gateway.identity === 'jwt-forwarded';
    const options = { traits, takesTokens, journal: this.#journal, workMs };
    const server = simulated.as('server', () => startAny(options));
    forkWorkers();
    for (const replica of this.#replicas) await replica.start();
    this.#beginMs = simulated.nowMs;
    const tell = (what: string) => this.#tell(what);
    const strikes = new Strikes(seed, faults, { replicas: this.#replicas, redis, tell });
    simulated.onMoment = (moment, owner) => strikes.happens(moment as Moment, owner);
    const heals = this.#healLater(strikes);
    const around = {
      seed,
      checker: this.checker,
      tell,
      pick: (why: string) => this.#pick(why),
      lastFaultMs: () => strikes.lastEndMs,
      hasTokens,
      isUndisturbed: isUndisturbed(this.#history),
      hasEnded: (caller: string, sinceMs: number) =>
        this.#journal.entries.some(
          ({ what, call, atMs }) =>
            what === 'ended' && atMs > sinceMs && callerOf.get(call) === caller,
        ),
      ownerOf: (call: string) =>
        isUndisturbed(this.#history) ? this.#journal.ownerOf(call) : null,
      maxParked: this.#history.gateway.maxParked,
      showsForms: this.#history.server.asksForms,
      isGentle: faults.every(isGentle),
      hasStore: () =>
        faults.every(({ kind }) => kind === 'store-queues-poisoned') &&
        simulated.nowMs - strikes.lastEndMs > QUEUES_BACK_WITHIN_MS,
      // A server that forgets a call ends it.
      mayLoseOutcomes: traits.forgetsAtMs !== null || !faults.every(isGentle),
    };
    const listeners = this.#history.listeners.map((caller, nth) => {
      const pick = (why: string) => this.#pick(`${why}:${nth}`);
      return simulated.as('client', () => new Listening({ seed, caller, pick, tell }));
    });
    const callers = calls.map((call) => new Caller(call, around));
    const legacy = this.#history.legacy.map((planned) => new LegacySession(planned, around));
    const playing = [...callers, ...legacy];
    await simulated.as('client', () => Promise.all(playing.map((client) => client.play())));
    await heals;
    // What is held for a while is free then.
    await simulated.sleep(SETTLE_MS);
    const last = lastCallsOf(this.#history).map((call) => new Caller(call, around));
    // One after the other: a process may park very few.
    for (const caller of last) {
      await simulated.as('client', () => caller.play());
      const { end, name } = caller;
      if (end?.type !== 'done') this.checker.break(7, `${name} has no result, when all is free`);
    }
    for (const session of legacy) await simulated.as('client', () => session.playLast());
    const changedMs = simulated.nowMs;
    simulated.as('server', () => server.change());
    await simulated.sleep(REDELIVER_MS);
    for (const listener of listeners) this.#checkListener(listener, changedMs);
    for (const session of legacy) await simulated.as('client', () => session.end());
    if (legacy.length > 0) await simulated.sleep(LEFT_WITHIN_MS);
    this.#checkLegacy(legacy, server.readers(), changedMs);
    this.#checkEnd(callers, strikes);
    await this.#close();
  }

  async #healLater(strikes: Strikes): Promise<void> {
    const { calls, legacy } = this.#history;
    const lastMs = Math.max(0, ...(calls.length > 0 ? calls : legacy).map(({ atMs }) => atMs));
    if (this.#history.faults.length > 0) await this.#simulated.sleep(lastMs + HEAL_AFTER_MS);
    strikes.healAll();
    this.#tell('all is healed');
  }

  #checkEnd(callers: readonly Caller[], strikes: Strikes): void {
    const { calls } = this.#history;
    const { checker } = this;
    checker.atEnd(callsOf(this.#history).map(({ name }) => name));
    const reports = callers.map(({ end, rounds }, at) => {
      const call = calls[at]!;
      return { call, name: nameOf(call.id), end, rounds };
    });
    const violate = (law: number, how: string) => checker.break(law, how);
    checkOutcomes(this.#history, reports, this.#journal, violate);
    checkUndisturbed(this.#history, reports, this.#journal, violate);
    checkReconnects(this.#history, this.#journal, violate);
    if (this.#history.faults.every(leavesStore)) this.#checkStore();
    const up = this.#replicas.filter(({ isUp }) => isUp);
    const working = new Set(up.flatMap((replica) => replica.processes));
    const wasQuiet: Quiet = (...times) => strikes.wasQuiet(...times);
    checkBeside(this.#history, this.#journal, wasQuiet, (process) => working.has(process), violate);
    // What reaches a process that is frozen or cut off can be lost between two readers of a stream.
    checker.questionsUnanswered(
      this.#simulated.nowMs,
      (process, atMs) => working.has(process) && !strikes.wasHindered(process, atMs),
    );
  }

  /** Law 3: who listens is told of a change. */
  #checkListener(listener: Listening, changedMs: number): void {
    const { caller, sinceMs, ended, heardMs } = listener;
    listener.end();
    // What is said on a stream that is ended at once is lost.
    if (heardMs >= changedMs || this.#history.server.endsStandalone) return;
    if (ended.some(({ endedMs }) => isAboutToListen(endedMs, changedMs))) return;
    const streams = [...ended, { sinceMs: sinceMs ?? Infinity, endedMs: Infinity }];
    const listened = streams.some((one) => one.sinceMs <= changedMs && one.endedMs > changedMs);
    if (listened) this.checker.break(3, `${caller} listens, and hears no change`);
    else this.checker.break(6, `${caller} wants to listen, and does not, when all is free`);
  }

  /** Law 6: no process says that there is no store while there is one. */
  #checkStore(): void {
    const line = this.#simulated.lines.find((one) => one.includes(': redis.down '));
    if (line !== undefined) this.checker.break(6, `the store is there: ${line}`);
  }

  #checkLegacy(
    sessions: readonly LegacySession[],
    readers: readonly string[],
    changedMs: number,
  ): void {
    const violate = (law: number, how: string) => this.checker.break(law, how);
    for (const session of sessions) {
      checkSession(this.#history, session, changedMs, this.#journal, violate);
      const { name } = session;
      if (readers.includes(name)) violate(7, `streams of ${name} are read, which has left`);
    }
  }

  /** Law 7: a process that has closed has nothing left. */
  async #close(): Promise<void> {
    const open = this.#replicas.filter(({ isUp, isDraining }) => isUp && !isDraining);
    const closed = new Set<Replica>();
    const closing = open.map((replica) => replica.close().then(() => closed.add(replica)));
    await Promise.race([Promise.all(closing), this.#simulated.sleep(CLOSE_WITHIN_MS)]);
    // Sockets end when their other ends do.
    await this.#simulated.sleep(CLOSE_WITHIN_MS);
    for (const replica of open) {
      const { name } = replica;
      if (!closed.has(replica)) this.checker.break(7, `${name} does not close`);
      const [, ...workers] = replica.processes;
      if (workers.length > 0) this.checker.break(7, `${name} has closed, and ${workers[0]} lives`);
      const handles = network().handlesOf(name);
      if (handles > 0) this.checker.break(7, `${name} has closed, and has ${handles} handles`);
      const timers = this.#simulated.timersOf(name) + replica.timers;
      if (timers > 0) this.checker.break(7, `${name} has closed, and has ${timers} timers`);
    }
    const names = new Set([...closed].map(({ name }) => name));
    const isOver = (name: string) => names.has(name) || this.#simulated.isDead(name);
    for (const { main, parent } of processes().outliving(isOver)) {
      this.checker.break(7, `${main.name} outlives ${parent}, which started it`);
    }
  }

  /** A balancer sees late that a replica is frozen or drains. */
  #pick(why: string): Replica {
    const there = this.#replicas.filter(({ isUp }) => isUp);
    const fit = there.filter(
      ({ name, isDraining }) => !isDraining && !this.#simulated.isFrozen(name),
    );
    const isMisled = fit.length === 0 || this.#below(`${why}:misled`, MISLED_ONE_IN) === 0;
    const from = isMisled ? there : fit;
    const replica = from[this.#below(why, from.length)];
    if (replica === undefined) throw new Error('no replica lives');
    return replica;
  }

  #below(why: string, end: number): number {
    return below(`${this.#history.seed}:${why}`, end);
  }

  #tell(what: string): void {
    const seconds = (this.#simulated.nowMs - this.#beginMs) / 1_000;
    this.story.push(`${seconds.toFixed(2).padStart(6)} s  ${what}`);
    this.#simulated.log(`story: ${what}`);
  }
}

/** The names of all calls, and how long their tools work. */
function callsOf({ calls, legacy }: History): { name: string; workMs: number }[] {
  return [
    ...calls.map(({ id, workMs }) => ({ name: nameOf(id), workMs })),
    ...legacy.flatMap((session) =>
      session.calls.map(({ id, workMs }) => ({ name: nameOfLegacy(session.id, id), workMs })),
    ),
  ];
}

/** Starts a server, or says what is started where a gateway starts processes. */
function startAny(options: ServerOptions): Changing {
  const { traits } = options;
  if (!isOverStdio(traits)) return startServer(PORTS.upstream, options);
  const servers = isModern(traits) ? new ModernStdioServers(options) : new StdioServers(options);
  processes().run = (start) => runInShell(start, () => (self) => servers.serve(self));
  return servers;
}
