/** Processes that the benchmark starts, asks, and ends for certain. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, fstatSync, openSync, readSync, unlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Heap } from './memory-probe.ts';
import { residentBytes } from './resident.ts';

const START_MS = 20_000;
const ERRORS_BYTES = 4_000;
const PROBE = new URL('./memory-probe.ts', import.meta.url).href;

export interface Memory extends Heap {
  readonly rssBytes: number;
}

type Environment = Readonly<Record<string, string>>;

export class Child {
  readonly pid: number;
  readonly #process: ChildProcess;
  readonly #name: string;
  /** What the process logs goes to a file, as elsewhere, and takes this process no time. */
  readonly #log: number;

  private constructor(
    name: string,
    command: string,
    args: readonly string[],
    { ipc = false, env = {} }: { readonly ipc?: boolean; readonly env?: Environment },
  ) {
    this.#name = name;
    this.#log = temporaryFile();
    this.#process = spawn(command, [...args], {
      env: { ...process.env, ...env },
      stdio: ['ignore', 'ignore', this.#log, ...(ipc ? (['ipc'] as const) : [])],
    });
    if (this.#process.pid === undefined) throw new Error(`${name} cannot be started`);
    this.pid = this.#process.pid;
    const end = () => this.#process.kill('SIGKILL');
    process.once('exit', end);
    this.#process.once('exit', () => process.off('exit', end));
  }

  /** A process of Node.js that can be asked for its memory. */
  static node(name: string, script: URL, args: readonly string[]): Child {
    const flags = ['--expose-gc', '--import', PROBE, fileURLToPath(script)];
    return new Child(name, process.execPath, [...flags, ...args], { ipc: true });
  }

  /** @param env variables beside those of this process */
  static program(
    name: string,
    command: string,
    args: readonly string[],
    env: Environment = {},
  ): Child {
    return new Child(name, command, args, { env });
  }

  /** Sends something to the process; resolves with this member of the message that comes back. */
  ask(message: string | object, member: string): Promise<unknown> {
    const heard = this.heard(member, 300_000);
    this.#process.send(message);
    return heard;
  }

  /** Resolves with this member of the first message that has it. Throws when the process ends before. */
  heard(member: string, withinMs = START_MS): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const onMessage = (message: unknown) => {
        if (typeof message !== 'object' || message === null || !(member in message)) return;
        settle(() => resolve((message as Record<string, unknown>)[member]));
      };
      const fail = (why: string) =>
        settle(() => reject(new Error(`${this.#name} ${why}\n${this.errors}`)));
      const onExit = () => fail('ended');
      const timer = setTimeout(() => fail(`said nothing for ${withinMs} ms`), withinMs);
      const settle = (then: () => void) => {
        clearTimeout(timer);
        this.#process.off('message', onMessage).off('exit', onExit);
        then();
      };
      this.#process.on('message', onMessage).once('exit', onExit);
      if (this.ended) onExit();
    });
  }

  async port(): Promise<number> {
    return Number(await this.heard('port'));
  }

  /** What the process holds after its garbage was collected. */
  async memory(): Promise<Memory> {
    const heap = (await this.ask('collect', 'heap')) as Heap;
    return { ...heap, rssBytes: residentBytes(this.pid) };
  }

  get ended(): boolean {
    return this.#process.exitCode !== null || this.#process.signalCode !== null;
  }

  /** Such as `exit code 1` or `SIGKILL`; `null` while it runs. */
  get end(): string | null {
    const { exitCode, signalCode } = this.#process;
    return signalCode ?? (exitCode === null ? null : `exit code ${exitCode}`);
  }

  /** The end of its log, without lines of JSON that are no warnings. */
  get errors(): string {
    const start = Math.max(0, fstatSync(this.#log).size - ERRORS_BYTES);
    const end = Buffer.alloc(ERRORS_BYTES);
    const text = end.toString('utf8', 0, readSync(this.#log, end, 0, ERRORS_BYTES, start));
    const lines = start === 0 ? text.split('\n') : text.split('\n').slice(1);
    return lines.filter((line) => !/^\{"level":"(?:trace|debug|info)",/.test(line)).join('\n');
  }

  /** Asks the process to end, and waits until it has. */
  async terminate(): Promise<void> {
    if (this.ended) return;
    const gone = once(this.#process, 'exit');
    this.#process.kill('SIGTERM');
    await gone;
    await this.stop();
  }

  async stop(): Promise<void> {
    if (!this.ended) {
      const gone = once(this.#process, 'exit');
      this.#process.kill('SIGKILL');
      await gone;
    }
    closeSync(this.#log);
  }
}

let files = 0;

/** A file that is gone when both processes have closed it. */
function temporaryFile(): number {
  files += 1;
  const path = join(tmpdir(), `mrtr-gateway-bench-${process.pid}-${files}.log`);
  const file = openSync(path, 'wx+');
  unlinkSync(path);
  return file;
}
