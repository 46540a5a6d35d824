/** Faults strike at moments of the wire, and end. */
import { below } from '../engine/random.ts';
import { simulation } from '../engine/simulation.ts';
import { EVERYWHERE } from '../network/links.ts';
import { placeOf } from '../network/places.ts';
import { network } from '../network/tcp-model.ts';
import type { RedisModel } from '../store/redis-model.ts';
import { forks } from '../processes/fork-model.ts';
import { type Group, processes } from '../processes/process-model.ts';
import { isEnd, isOfProcess, isOfWorker, type Moment, type PlannedFault } from './faults.ts';
import { strikeProcess } from './process-strikes.ts';
import type { Replica } from './replicas.ts';

interface Parts {
  readonly replicas: readonly Replica[];
  readonly redis: RedisModel;
  /** Says in the story what happens. */
  tell(what: string): void;
}

const CLOCK_STEPS_MS = [60_000, 60_000, 600_000] as const;
const FALL_BACK_MS = [300, 2_000, 20_000] as const;
const SLOWEST_MS = 900;
/** What was sent so long before a fault can be on its way. */
const ON_ITS_WAY_MS = 50;
/** The owner of what faults do: it never dies. */
const FAULTS = 'faults';

export class Strikes {
  readonly #seed: number;
  readonly #parts: Parts;
  readonly #waiting: Set<PlannedFault>;
  readonly #seen = new Map<string, number>();
  /** What ends the faults that last. */
  readonly #ends = new Set<() => void>();
  /** When what happened to which place. */
  readonly #hindered: { readonly place: string; readonly fromMs: number; untilMs: number }[] = [];
  readonly #struck: { readonly atMs: number; readonly isEnd: boolean }[] = [];
  /** When the last fault ended. */
  lastEndMs = 0;
  #isOver = false;

  constructor(seed: number, faults: readonly PlannedFault[], parts: Parts) {
    this.#seed = seed;
    this.#parts = parts;
    this.#waiting = new Set(faults);
  }

  /** Notes a moment, and lets strike what waits for it. */
  happens(moment: Moment, owner: string): void {
    if (this.#isOver) return;
    const nth = this.#seen.get(moment) ?? 0;
    this.#seen.set(moment, nth + 1);
    for (const fault of this.#waiting) {
      if (fault.moment !== moment || fault.nth !== nth) continue;
      this.#waiting.delete(fault);
      // In a step of its own: what a process does at once, it does whole.
      simulation().after(fault.afterMs, () => this.#strike(fault, placeOf(owner)), FAULTS);
    }
  }

  /** Whether a process could not do what it should do then. */
  wasHindered(process: string, atMs: number): boolean {
    return this.#hindered.some(
      ({ place, fromMs, untilMs }) =>
        place === placeOf(process) && fromMs - ON_ITS_WAY_MS <= atMs && atMs <= untilMs,
    );
  }

  /**
   * Whether nothing struck in that time.
   * @param beforeMs how long before it nothing may have struck but ends of processes, after which others go on
   */
  wasQuiet(fromMs: number, untilMs: number, beforeMs: number): boolean {
    const sinceMs = fromMs - beforeMs;
    return (
      !this.#struck.some(
        (one) => (one.isEnd ? fromMs : sinceMs) <= one.atMs && one.atMs <= untilMs,
      ) && !this.#hindered.some((one) => one.fromMs <= untilMs && sinceMs <= one.untilMs)
    );
  }

  /** Ends all faults, and lets no other strike. */
  healAll(): void {
    this.#isOver = true;
    for (const end of [...this.#ends]) end();
    network().links.mendAll();
    this.#parts.redis.store.heal();
  }

  #strike(fault: PlannedFault, here: string): void {
    if (this.#isOver) return;
    this.#struck.push({ atMs: simulation().nowMs, isEnd: isEnd(fault.kind) });
    const replica = this.#victim(fault, here);
    if (fault.kind.startsWith('store-')) this.#strikeStore(fault);
    else if (replica === null) return;
    else if (isOfProcess(fault.kind)) this.#strikeProcess(fault, replica);
    else if (isOfWorker(fault.kind)) this.#strikeWorker(fault, replica);
    else if (isEnd(fault.kind)) this.#endReplica(fault, replica);
    else if (fault.kind === 'freeze') this.#freeze(fault, replica);
    else if (fault.kind === 'clock') this.#stepClock(fault, ...replica.processes);
    else this.#strikeLink(fault, replica.place);
  }

  #victim({ id, where }: PlannedFault, here: string): Replica | null {
    const up = this.#parts.replicas.filter(({ isUp, isDraining }) => isUp && !isDraining);
    const found = where === 'here' ? up.find(({ place }) => place === here) : undefined;
    return found ?? up[this.#below(id, 'victim', up.length)] ?? null;
  }

  #endReplica(fault: PlannedFault, replica: Replica): void {
    const { kind, restartMs } = fault;
    const up = this.#parts.replicas.filter(({ isUp, isDraining }) => isUp && !isDraining);
    if (up.length < 2) return;
    const { name, place } = replica;
    this.#parts.tell(`${kind}: ${name}`);
    const { links } = network();
    if (kind === 'vanish') {
      for (const [from, to] of bothWays(place, EVERYWHERE)) links.cut(from, to);
    }
    const gone = () => {
      const running = replica.processes;
      // The machine is gone, with all that runs there.
      if (kind === 'vanish') {
        for (const forked of forks().childrenOf(name)) forked.signal('SIGKILL');
        for (const group of startedBy(running)) group.signal('SIGKILL');
      }
      simulation().kill(name);
      this.#note();
      if (restartMs === null) return;
      simulation().after(restartMs, () => this.#restart(fault, replica), FAULTS);
    };
    if (kind === 'drain') void replica.drain().then(() => simulation().after(0, gone, FAULTS));
    else gone();
  }

  #restart({ kind }: PlannedFault, replica: Replica): void {
    if (this.#isOver) return;
    if (kind === 'vanish') {
      for (const [from, to] of bothWays(replica.place, EVERYWHERE)) network().links.mend(from, to);
    }
    this.#note();
    this.#parts.tell(`restart: ${replica.place}`);
    // It does not start if the store is unreachable for too long.
    replica.start().catch(() => {});
  }

  #freeze({ forMs }: PlannedFault, { place, processes: frozen }: Replica): void {
    const names = frozen.join(', ');
    this.#parts.tell(`freeze: ${names} for ${forMs} ms`);
    for (const name of frozen) simulation().freeze(name);
    this.#endAfter(forMs, place, () => {
      this.#parts.tell(`${names} goes on`);
      for (const name of frozen) simulation().thaw(name);
    });
  }

  /** Strikes one of the processes that serve the clients of a gateway. */
  #strikeWorker({ id, kind, forMs }: PlannedFault, { name, place }: Replica): void {
    const workers = forks().childrenOf(name);
    const struck = workers[this.#below(id, 'worker', workers.length)];
    if (struck === undefined) return;
    this.#parts.tell(`${kind}: ${struck.name}`);
    this.#note();
    if (kind === 'worker-dies') return struck.signal('SIGKILL');
    simulation().freeze(struck.name);
    this.#endAfter(forMs, place, () => simulation().thaw(struck.name));
  }

  #stepClock({ id }: PlannedFault, ...names: readonly string[]): void {
    const stepMs = CLOCK_STEPS_MS[this.#below(id, 'how far', CLOCK_STEPS_MS.length)] ?? 0;
    const aheadMs = this.#below(id, 'step', 2) === 0 ? stepMs : -stepMs;
    this.#parts.tell(`clock: ${names.join(', ')} ${aheadMs} ms`);
    for (const name of names) simulation().setClockAhead(name, aheadMs);
  }

  /** Strikes one of the processes that a gateway has started. */
  #strikeProcess({ id, kind, forMs }: PlannedFault, { place, processes: running }: Replica): void {
    const started = startedBy(running);
    const struck = started[this.#below(id, 'process', started.length)];
    if (struck === undefined) return;
    this.#parts.tell(`${kind}: ${struck.main.name}`);
    strikeProcess(kind, struck.main, (end) => this.#endAfter(forMs, place, end));
    this.#note();
  }

  #strikeLink({ id, kind, between, forMs }: PlannedFault, place: string): void {
    const others = this.#parts.replicas.filter((other) => other.place !== place);
    const other =
      between === 'replica' ? others[this.#below(id, 'other', others.length)]?.place : between;
    if (other === undefined) return;
    this.#parts.tell(`${kind}: ${place} and ${other} for ${forMs} ms`);
    const { links } = network();
    if (kind === 'reset' || kind === 'half-close') {
      const end = kind === 'reset' ? 'reset' : 'ended';
      for (const connection of network().between(place, other)) {
        connection.breakOff(end);
        if (kind === 'reset') connection.peer?.breakOff(end);
      }
      return this.#note();
    }
    if (kind === 'refuse') {
      links.refuse(other, true);
      return this.#endAfter(forMs, place, () => links.refuse(other, false));
    }
    const [there, back] = bothWays(place, other);
    const ways = { partition: [there, back], deaf: [back], mute: [there] }[kind as 'partition'];
    for (const [from, to] of ways) links.cut(from, to);
    this.#endAfter(forMs, place, () => {
      for (const [from, to] of ways) links.mend(from, to);
    });
  }

  #strikeStore({ id, kind, forMs }: PlannedFault): void {
    const { redis } = this.#parts;
    this.#parts.tell(`${kind} for ${forMs} ms`);
    const { links } = network();
    switch (kind) {
      case 'store-away':
        redis.setAway(true);
        return this.#endAfter(forMs, 'redis', () => redis.setAway(false));
      case 'store-hangs':
        for (const [from, to] of bothWays('redis', EVERYWHERE)) links.cut(from, to);
        return this.#endAfter(forMs, 'redis', () => {
          for (const [from, to] of bothWays('redis', EVERYWHERE)) links.mend(from, to);
        });
      case 'store-slow':
        redis.slowMs = this.#below(id, 'slow', SLOWEST_MS);
        return this.#endAfter(forMs, 'redis', () => (redis.slowMs = 0));
      case 'store-loses-replies':
        redis.losesReplies = true;
        return this.#endAfter(forMs, 'redis', () => (redis.losesReplies = false));
      case 'store-loses-data':
        redis.store.flush();
        redis.cutConnections();
        break;
      case 'store-falls-back':
        redis.store.fallBack(FALL_BACK_MS[this.#below(id, 'back', FALL_BACK_MS.length)] ?? 0);
        redis.cutConnections();
        break;
      case 'store-clock':
        this.#stepClock({ id } as PlannedFault, 'redis');
        break;
      case 'store-queues-poisoned':
        redis.store.poisonQueues();
        break;
      default:
        redis.poison(`${this.#seed}:${id}`);
    }
    this.#note();
  }

  #endAfter(forMs: number, place: string, end: () => void): void {
    const hindered = { place, fromMs: simulation().nowMs, untilMs: Infinity };
    this.#hindered.push(hindered);
    const endOnce = () => {
      if (!this.#ends.delete(endOnce)) return;
      this.#note();
      hindered.untilMs = simulation().nowMs;
      end();
    };
    this.#ends.add(endOnce);
    simulation().after(forMs, endOnce, FAULTS);
  }

  #note(): void {
    this.lastEndMs = simulation().nowMs;
  }

  #below(id: number, why: string, end: number): number {
    return below(`${this.#seed}:fault:${id}:${why}`, Math.max(1, end));
  }
}

/** The processes of servers over stdio that these have started. */
function startedBy(running: readonly string[]): Group[] {
  return running.flatMap((name) => processes().childrenOf(name));
}

function bothWays(here: string, there: string): [[string, string], [string, string]] {
  return [
    [here, there],
    [there, here],
  ];
}
