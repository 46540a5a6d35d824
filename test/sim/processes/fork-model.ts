/**
 * Forked processes in memory, each with a channel to the process that forked it: `fork` of `node:child_process` is replaced while a
 * simulation runs. To import it is to replace it, for the whole process.
 */
import childProcess, { type ChildProcess } from 'node:child_process';
import { EventEmitter } from 'node:events';
import { syncBuiltinESMExports } from 'node:module';
import { Socket } from 'node:net';
import { Random } from '../engine/random.ts';
import { ownerNow, runningSimulation, simulation, type Simulation } from '../engine/simulation.ts';
import { passOn } from '../network/tcp-model.ts';
import type { Signal } from './process-model.ts';

/** No kernel gives such an id to a process, and no server over stdio has one of these. */
const FIRST_PID = 2 ** 24;
/** What starts a process takes most of that. */
const START_MS = 40;
const CALM_MS = 0.1;
const LONGEST_MS = 0.5;
/** Who ends processes: nobody can kill it. */
const KERNEL = 'kernel';

/** What a forked program has, simulated or not. */
export interface ForkedSelf {
  /** @param listener is given the socket that came with a message, if one did */
  onMessage(listener: (message: unknown, socket?: Socket) => void): void;
  /** Calls the listener when the channel is closed: the other end is gone. */
  onClose(listener: () => void): void;
  send(message: unknown): void;
  exit(code: number): void;
}

type Messages = EventEmitter<{
  message: [unknown];
  disconnect: [];
  exit: [number | null, Signal | null];
}>;

/** A forked process. */
export class Forked implements ForkedSelf {
  readonly name: string;
  readonly parent: string;
  readonly args: readonly string[];
  /** As its parent has it. */
  readonly handle: Messages &
    Pick<ChildProcess, 'pid' | 'send' | 'kill' | 'disconnect'> & { connected: boolean };
  isOver = false;
  #hears: (message: unknown, socket?: Socket) => void = () => {};
  #isLeft: () => void = () => {};
  readonly #lastMs = { down: 0, up: 0 };
  readonly #noise: { readonly down: Random; readonly up: Random };

  constructor(args: readonly string[], pid: number, parent: string, name: string) {
    this.name = name;
    this.parent = parent;
    this.args = args;
    const random = (way: string) => new Random(`${simulation().seed}:${name}:${way}`);
    this.#noise = { down: random('down'), up: random('up') };
    this.handle = Object.assign(new EventEmitter() as Messages, {
      pid,
      connected: true,
      send: (message: unknown, ...more: unknown[]) => this.#sendDown(message, more),
      disconnect: () => {
        this.left();
        this.#disconnected();
      },
      kill: (signal?: NodeJS.Signals | number) => {
        this.signal(signal === 'SIGKILL' ? signal : 'SIGTERM');
        return true;
      },
    });
  }

  readonly onMessage = (listener: (message: unknown, socket?: Socket) => void): void => {
    this.#hears = listener;
  };

  readonly onClose = (listener: () => void): void => {
    this.#isLeft = listener;
  };

  readonly send = (message: unknown): void => {
    if (simulation().isDead(this.parent)) return;
    const text = JSON.stringify(message);
    this.#up(() => this.handle.emit('message', JSON.parse(text)));
  };

  readonly exit = (code: number): void => {
    // In a step of its own: what a process does at once, it does whole.
    simulation().after(0, () => this.#end(code, null), KERNEL);
  };

  signal(signal: Signal): void {
    simulation().after(0, () => this.#end(null, signal), KERNEL);
  }

  /** Runs the program, once the process has started. */
  start(program: (self: Forked) => void): void {
    this.#down(() => program(this), START_MS);
  }

  /** Its parent is gone. */
  left(): void {
    this.#down(() => this.#isLeft());
  }

  #end(code: number | null, signal: Signal | null): void {
    if (this.isOver) return;
    this.isOver = true;
    simulation().log(`${this.name} ends: ${signal ?? code}`);
    simulation().kill(this.name);
    // What it has sent arrives before that.
    this.#up(() => {
      this.#disconnected();
      this.handle.emit('exit', code, signal);
    });
  }

  #disconnected(): void {
    if (!this.handle.connected) return;
    this.handle.connected = false;
    this.handle.emit('disconnect');
  }

  #sendDown(message: unknown, more: readonly unknown[]): boolean {
    const passed = more.find((one) => one instanceof Socket);
    const socket = passed && passOn(passed, this.name);
    const onSent = more.findLast((one) => typeof one === 'function');
    if (onSent !== undefined) simulation().after(0, () => onSent(null));
    const text = JSON.stringify(message);
    this.#down(() => this.#hears(JSON.parse(text), socket));
    return true;
  }

  #down(run: () => void, moreMs = 0): void {
    simulation().at(this.#arrivalMs('down', moreMs), run, this.name);
  }

  #up(run: () => void): void {
    simulation().at(this.#arrivalMs('up', 0), run, this.parent);
  }

  /** What was sent first arrives first. */
  #arrivalMs(way: 'down' | 'up', moreMs: number): number {
    const delayMs = simulation().isCalm ? CALM_MS : this.#noise[way].fraction() * LONGEST_MS;
    const atMs = simulation().nowMs + moreMs + delayMs;
    return (this.#lastMs[way] = Math.max(this.#lastMs[way], atMs));
  }
}

/** The forked processes of one simulation. */
class Forks {
  /** What forked processes run. */
  program: (self: Forked) => void = ({ args }) => {
    throw new Error(`nobody knows the program ${args.join(' ')}`);
  };
  readonly #all: Forked[] = [];

  /** What a process has forked and what is not over. */
  childrenOf(parent: string): Forked[] {
    return this.#all.filter((forked) => forked.parent === parent && !forked.isOver);
  }

  fork(args: readonly string[]): ChildProcess {
    const parent = ownerNow();
    const nth = this.#all.filter((forked) => forked.parent === parent).length + 1;
    const name = `${parent.includes('.') ? parent : `${parent}.1`}.w${nth}`;
    const forked = new Forked(args, FIRST_PID + this.#all.length, parent, name);
    this.#all.push(forked);
    // Both are on one machine.
    simulation().setClockAhead(name, simulation().clockAheadMs(parent));
    forked.start(this.program);
    return forked.handle as unknown as ChildProcess;
  }

  kill(owner: string): void {
    for (const forked of this.childrenOf(owner)) forked.left();
  }

  clear(): void {}
}

const all = new WeakMap<Simulation, Forks>();

/** The forked processes of the simulation that runs. */
export function forks(): Forks {
  let found = all.get(simulation());
  if (found === undefined) {
    all.set(simulation(), (found = new Forks()));
    simulation().attach(found);
  }
  return found;
}

const { fork } = childProcess;
Object.assign(childProcess, {
  fork: (...words: Parameters<typeof fork>) =>
    runningSimulation() === null ? fork(...words) : forks().fork((words[1] ?? []) as string[]),
});
syncBuiltinESMExports();
