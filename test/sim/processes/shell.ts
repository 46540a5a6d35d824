/** A twin of the shell script that the gateway runs each server over stdio in: who ends when, and who says so. */
import { Random } from '../engine/random.ts';
import { hash } from 'node:crypto';
import { simulation } from '../engine/simulation.ts';
import { type Group, Running, type Signal, type Start } from './process-model.ts';

/** What the twin does. Whoever changes the script changes the twin, and then this. */
const DIGEST_OF_SCRIPT = '585ecc1bbb45';
/** The file through which the gateway hears the exit code, and the guard that the gateway is gone. */
const GUARDED_FILE = 3;
const LONGEST_STEP_MS = 2;

/** What a command stands for. */
export type ProgramOf = (command: string, args: readonly string[]) => (self: Running) => void;

/** The command is `/bin/sh -c SCRIPT sh COMMAND ARGUMENT...`. */
export function runInShell(start: Start, programOf: ProgramOf): Group {
  const [, , script = '', , command = '', ...args] = start.args;
  const digest = hash('sha256', script, 'hex').slice(0, 12);
  if (digest !== DIGEST_OF_SCRIPT) {
    throw new Error(
      `the script of server processes is another one (${digest}): its twin must follow`,
    );
  }
  const shell = new Shell(start);
  const program = programOf(command, args);
  shell.soon(() => program(shell.main), start.name);
  return shell;
}

class Shell implements Group {
  readonly parent: string;
  readonly main: Running;
  isOver = false;
  readonly #start: Start;
  readonly #name: string;
  readonly #random: Random;

  constructor(start: Start) {
    this.#start = start;
    this.parent = start.parent;
    this.#name = `${start.name}-shell`;
    this.#random = new Random(`${simulation().seed}:${this.#name}`);
    const guarded = start.open(GUARDED_FILE, this.#name);
    this.main = new Running(start, (code) => {
      if (this.isOver) return;
      // The shell collects the server, tells its exit code, and ends with its group.
      this.soon(() => guarded?.write(`${code}\n`, () => this.#killAll()), this.#name);
    });
    for (const event of ['end', 'error', 'close']) guarded?.once(event, () => this.#killAll());
    guarded?.resume();
  }

  /** The shell and its guard are ended by SIGKILL only. */
  signal(signal: Signal): void {
    if (signal === 'SIGKILL') this.#killAll();
    else this.main.signal(signal);
  }

  soon(step: () => void, owner: string): void {
    const afterMs = simulation().isCalm ? 0 : this.#random.fraction() * LONGEST_STEP_MS;
    simulation().after(afterMs, step, owner);
  }

  #killAll(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.main.signal('SIGKILL');
    simulation().kill(this.#name);
    this.#start.end(0, 'SIGKILL');
  }
}
