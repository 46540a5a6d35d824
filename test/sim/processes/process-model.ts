/**
 * Child processes in memory: the methods of Node's own handles of processes and pipes are replaced, so `node:child_process`
 * stays as it is. To import it is to replace them while a simulation runs, for the whole process.
 */
import net from 'node:net';
import { constants } from 'node:os';
import type { Readable, Writable } from 'node:stream';
import {
  type ChildFile,
  type Handle,
  hostProcess,
  internals,
  type ProcessHandle,
} from '../engine/node-internals.ts';
import { ownerNow, runningSimulation, simulation, type Simulation } from '../engine/simulation.ts';
import { allArrivedMs, isSimulated, openPipe, streamMethods } from '../network/tcp-model.ts';

/** No kernel gives such an id to a process. */
const FIRST_PID = 2 ** 23;
/** A shell adds the number of a signal to it. */
const BY_SIGNAL = 128;
/** A parent reads what has arrived before it hears of an end. */
const EXIT_AFTER_MS = 0.01;
/** Who ends processes: nobody can kill it. */
const KERNEL = 'kernel';

export type Signal = 'SIGTERM' | 'SIGKILL';

/** What a program has, simulated or not. */
export interface Self {
  readonly stdin: Readable;
  readonly stdout: Writable;
  readonly stderr: Writable;
  on(signal: 'SIGTERM', listener: () => void): unknown;
  exit(code: number): void;
}

export type Program = (self: Self) => void;

/** How a process was started. */
export interface Start {
  readonly args: readonly string[];
  readonly parent: string;
  /** The name of the process, which no other has. */
  readonly name: string;
  /** Opens the file with this number, for who has it. @returns `null` if there is no such file */
  open(file: number, owner: string): net.Socket | null;
  /** Tells the parent that the process, and with it its group, is over. */
  end(code: number, signal: Signal | null): void;
}

type OnEnd = (code: number, signal: Signal | null) => void;

/** A process, as others see it. */
export class Running implements Self {
  readonly name: string;
  readonly parent: string;
  readonly stdin: Readable;
  readonly stdout: Writable;
  readonly stderr: Writable;
  /** What follows when it is over. */
  readonly #onEnd: OnEnd;
  #onTerm: (() => void) | null = null;
  isOver = false;
  /** Called when it is over, however that was. */
  onOver: () => void = () => {};

  constructor({ name, parent, open }: Start, onEnd: OnEnd) {
    const file = (number: number) => open(number, name) ?? new net.Socket();
    this.name = name;
    this.parent = parent;
    this.stdin = file(0);
    this.stdout = file(1);
    this.stderr = file(2);
    this.#onEnd = onEnd;
    for (const stream of [this.stdin, this.stdout, this.stderr]) stream.on('error', () => {});
  }

  readonly on = (_signal: 'SIGTERM', listener: () => void): void => {
    this.#onTerm = listener;
  };

  readonly exit = (code: number): void => {
    // In a step of its own: what a process does at once, it does whole.
    simulation().after(0, () => this.#end(code, null), KERNEL);
  };

  signal(signal: Signal): void {
    if (this.isOver) return;
    const handle = this.#onTerm;
    if (signal === 'SIGTERM' && handle !== null) simulation().after(0, handle, this.name);
    else this.#end(BY_SIGNAL + constants.signals[signal], signal);
  }

  #end(code: number, signal: Signal | null): void {
    if (this.isOver) return;
    this.isOver = true;
    simulation().kill(this.name);
    this.onOver();
    this.#onEnd(code, signal);
  }
}

/** A process that a gateway started, with all that this started: signals reach the whole of it. */
export interface Group {
  readonly parent: string;
  readonly isOver: boolean;
  /** What the group is there for. */
  readonly main: Running;
  signal(signal: Signal): void;
}

/** The child processes of one simulation. */
class Processes {
  /** Starts what a command names. */
  run: (start: Start) => Group = ({ args }) => {
    throw new Error(`nobody knows the program ${args.join(' ')}`);
  };
  readonly #groups = new Map<number, Group>();
  readonly #counts = new Map<string, number>();

  /** What a process has started and what is not over. */
  childrenOf(parent: string): Group[] {
    return [...this.#groups.values()].filter((group) => group.parent === parent && !group.isOver);
  }

  /** What is not over although its parent is, as far as `isOver` says. */
  outliving(isOver: (parent: string) => boolean): Group[] {
    return [...this.#groups.values()].filter((group) => !group.isOver && isOver(group.parent));
  }

  spawn(handle: ProcessHandle, args: readonly string[], files: readonly ChildFile[]): void {
    const parent = ownerNow();
    const nth = (this.#counts.get(parent) ?? 0) + 1;
    this.#counts.set(parent, nth);
    handle.pid = FIRST_PID + this.#groups.size;
    const name = `${parent.includes('.') ? parent : `${parent}.1`}.p${nth}`;
    const owners = new Set([name]);
    const open = (number: number, owner: string) => {
      owners.add(owner);
      const near = files[number]?.handle;
      if (near === undefined) return null;
      const far = openPipe(`${name}:${number}`, near, { near: parent, far: owner });
      return simulation().as(owner, () => {
        const options = { handle: far, allowHalfOpen: true };
        return new net.Socket(options as unknown as net.SocketConstructorOpts);
      });
    };
    const end = (code: number, signal: Signal | null) => {
      simulation().log(`${name} ends: ${signal ?? code}`);
      // The kernel tells it after what the process wrote.
      const exitMs = allArrivedMs(owners) + EXIT_AFTER_MS;
      simulation().at(exitMs, () => handle.onexit(code, signal), parent);
    };
    this.#groups.set(handle.pid, this.run({ args, parent, name, open, end }));
  }

  /** @returns 0 or the code of an error, as the kernel */
  signal(pid: number, signal: Signal): number {
    const group = this.#groups.get(Math.abs(pid));
    if (group === undefined || group.isOver) return internals.codes.UV_ESRCH;
    group.signal(signal);
    return 0;
  }
}

const all = new WeakMap<Simulation, Processes>();

/** The child processes of the simulation that runs. */
export function processes(): Processes {
  let found = all.get(simulation());
  if (found === undefined) all.set(simulation(), (found = new Processes()));
  return found;
}

function nameOfSignal(number: number): Signal {
  const { SIGKILL, SIGTERM } = constants.signals;
  if (number !== SIGKILL && number !== SIGTERM) throw new Error(`no such signal here: ${number}`);
  return number === SIGKILL ? 'SIGKILL' : 'SIGTERM';
}

function replace(
  methods: Record<string, unknown>,
  isOurs: (handle: Handle) => boolean,
  by: Record<string, unknown>,
): void {
  for (const [name, ours] of Object.entries(by)) {
    const real = methods[name] as (...args: unknown[]) => unknown;
    methods[name] = function (this: Handle, ...args: unknown[]) {
      const method = isOurs(this) ? (ours as typeof real) : real;
      return method.apply(this, args);
    };
  }
}

replace(internals.pipes.Pipe.prototype, isSimulated, streamMethods);
replace(internals.processes.Process.prototype, () => runningSimulation() !== null, {
  spawn(
    this: ProcessHandle,
    _file: string,
    args: readonly string[],
    _folder: string | undefined,
    _environment: readonly string[],
    files: readonly ChildFile[],
  ) {
    processes().spawn(this, args, files);
    return 0;
  },
  kill(this: ProcessHandle, signal: number) {
    return processes().signal(this.pid, nameOfSignal(signal));
  },
  close: () => {},
});

const kill = hostProcess._kill;
hostProcess._kill = (pid, signal) => {
  if (Math.abs(pid) >= FIRST_PID) {
    return runningSimulation() === null
      ? internals.codes.UV_ESRCH
      : processes().signal(pid, nameOfSignal(signal));
  }
  if (runningSimulation() === null) return kill(pid, signal);
  throw new Error(`a simulation sends no signal to a real process (${pid})`);
};
