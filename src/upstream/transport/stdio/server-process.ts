/**
 * A process of a server over stdio. It leads a process group, which ends with it and with the gateway, however that
 * ends: a shell in the group kills all of it as soon as its pipe to the gateway closes (ADR 34).
 */
import type { HeldBytes } from '../../../lib/byte-budget.ts';
import { spawn, type ChildProcess } from 'node:child_process';
import { constants } from 'node:os';
import { Readable, type Writable } from 'node:stream';
import { inBackground } from '../../../lib/background.ts';
import { sleep, type Clock, type Timer } from '../../../lib/clock.ts';
import type { DiscardedMessage } from '../../discarded-message.ts';
import { LineReader } from './lines.ts';

export interface ServerCommand {
  readonly command: string;
  readonly args: readonly string[];
  /** The whole environment. */
  readonly env: Readonly<Record<string, string>>;
  /** `null` for the folder of the gateway. */
  readonly cwd: string | null;
}

export interface ServerProcessOptions extends ServerCommand {
  /** The longest line of standard output, in bytes. */
  readonly maxLineBytes: number;
  /** What a line of standard output takes until it has ended. */
  readonly held: HeldBytes;
  readonly clock: Clock;
  /** Called with each line of standard output that is not too long. */
  readonly onLine: (line: string) => void;
  /** Called with what is left of a line of standard output that is too long. */
  readonly onDiscarded: (line: DiscardedMessage) => void;
  /** Called with each line of standard error, or its beginning. */
  readonly onError: (line: string) => void;
  /** Called at most once, when the process has closed its standard output and does not end. */
  readonly onOutputEnd: () => void;
  /** Called once, when the process has ended or could not be started. */
  readonly onEnd: (end: ProcessEnd) => void;
}

export type ProcessEnd =
  | { readonly type: 'exited'; readonly code: number }
  | { readonly type: 'killed'; readonly signal: string }
  | { readonly type: 'not-started'; readonly problem: string };

/** A shell adds the number of a signal to it. */
const BY_SIGNAL = 128;

/**
 * The shell has two children, and collects both, since nothing else may do that in a container. The first waits for the
 * pipe to close, and is ended by no signal but SIGKILL. The second is the server. A command in the background has no
 * input of its own. The exit code of the server goes through the pipe, since the shell ends with its group.
 */
const SCRIPT = `(trap '' HUP INT TERM; read -r _; kill -KILL 0) <&3 3<&- >/dev/null 2>&1 &
guard=$!
exec 4<&0
"$@" <&4 3<&- 4<&- &
exec 4<&- </dev/null >/dev/null 2>&1
trap '' HUP INT TERM
wait $!
code=$?
kill -KILL $guard
wait $guard
echo $code >&3
kill -KILL 0`;
/** As the official SDKs do: how long a server has to end after its input has, and then after SIGTERM, in ms. */
const END_MS = 2_000;
const HURRIED_END_MS = 1_000;
/** How long what a process wrote can take to arrive after its end, in ms. */
const LAST_OUTPUT_MS = 500;
/** How long a process can take to end after its standard output has, in ms. Its exit code says more than that. */
const END_AFTER_OUTPUT_MS = 1_000;
const MAX_ERROR_LINE_BYTES = 4_096;

export class ServerProcess {
  readonly #options: ServerProcessOptions;
  readonly #child: ChildProcess;
  readonly #stdin: Writable;
  readonly #hasEnded = Promise.withResolvers<void>();
  /** Resolves when the process has ended, with all of its group. */
  readonly ended = this.#hasEnded.promise;
  readonly #outputEnded = Promise.withResolvers<void>();
  #isOver = false;
  #ending: Timer | null = null;
  /** Runs from the end of standard output to the end of the process. */
  #outliving: Timer | null = null;

  /** Starts the process. */
  constructor(options: ServerProcessOptions) {
    const { command, args, env, cwd, maxLineBytes, held, onLine, onDiscarded, onError } = options;
    this.#options = options;
    const child = spawn('/bin/sh', ['-c', SCRIPT, 'sh', command, ...args], {
      env: { ...env },
      stdio: ['pipe', 'pipe', 'pipe', 'pipe'],
      detached: true,
      ...(cwd === null ? {} : { cwd }),
    });
    this.#child = child;
    this.#stdin = child.stdin;
    // A process that ends while something is written to it. Its end is told anyway.
    for (const stream of child.stdio) stream?.on('error', () => {});
    this.#read(child.stdout, new LineReader(maxLineBytes, onLine, onDiscarded, held));
    this.#read(child.stderr, new LineReader(MAX_ERROR_LINE_BYTES, onError));
    child.stdout.once('close', () => {
      held.release();
      this.#outputEnded.resolve();
    });
    child.stdout.once('end', () => this.#awaitEnd());
    child.once('error', ({ message }) => {
      if (child.pid === undefined) this.#end({ type: 'not-started', problem: message });
    });
    let code = '';
    const pipe = child.stdio[3];
    if (pipe instanceof Readable) pipe.on('data', (text: Buffer) => (code += text.toString()));
    child.once('exit', () => inBackground(this.#exited(() => endOf(code))));
  }

  /** `null` if the process could not be started. */
  get pid(): number | null {
    return this.#child.pid ?? null;
  }

  /** How many bytes were written that the process has not read. */
  get unreadBytes(): number {
    return this.#stdin.writableLength;
  }

  /** Writes to standard input. Resolves when the operating system has it. Rejects if the process has ended. */
  write(text: string): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#stdin.write(text, (error) => {
        if (error) reject(error);
        else resolve();
      });
    });
  }

  /** Reads no more of its output, so that it waits when the pipe is full. */
  pause(): void {
    this.#child.stdout?.pause();
  }

  resume(): void {
    this.#child.stdout?.resume();
  }

  /**
   * Ends the process: closes its input (2025-11-25 transports, "Shutdown" of lifecycle), then sends SIGTERM, then SIGKILL.
   * @param isHurried begins with SIGTERM, and waits for less time
   */
  end(isHurried = false): Promise<void> {
    const { clock } = this.#options;
    if (this.#isOver || (this.#ending !== null && !isHurried)) return this.ended;
    this.#stdin.end();
    this.#ending?.cancel();
    const kill = () => this.#signal('SIGKILL');
    const terminate = () => {
      this.#signal('SIGTERM');
      this.#ending = clock.setTimer(isHurried ? HURRIED_END_MS : END_MS, kill);
    };
    if (isHurried) terminate();
    else this.#ending = clock.setTimer(END_MS, terminate);
    return this.ended;
  }

  #read(stream: Readable, lines: LineReader): void {
    stream.on('data', (chunk: Buffer) => lines.push(chunk));
    stream.once('end', () => lines.end());
  }

  /** Nothing that the process does from now on can be heard. Usually it just ends. */
  #awaitEnd(): void {
    if (this.#isOver) return;
    const { clock, onOutputEnd } = this.#options;
    this.#outliving = clock.setTimer(END_AFTER_OUTPUT_MS, onOutputEnd);
  }

  /** What the process started belongs to its group, and ends with it. */
  async #exited(end: () => ProcessEnd): Promise<void> {
    this.#signal('SIGKILL');
    this.resume();
    await Promise.race([this.#outputEnded.promise, sleep(this.#options.clock, LAST_OUTPUT_MS)]);
    for (const stream of this.#child.stdio) stream?.destroy();
    this.#end(end());
  }

  #end(end: ProcessEnd): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#ending?.cancel();
    this.#outliving?.cancel();
    this.#options.onEnd(end);
    this.#hasEnded.resolve();
  }

  /** Sends a signal to the group. The shell in it keeps its id from being given to another one. */
  #signal(signal: 'SIGTERM' | 'SIGKILL'): void {
    const { pid } = this.#child;
    if (pid === undefined) return;
    try {
      process.kill(-pid, signal);
    } catch {
      // Nothing is left of the group.
    }
  }
}

/** @param written what the shell wrote of the exit code; nothing if it was killed first */
function endOf(written: string): ProcessEnd {
  const code = written === '' ? BY_SIGNAL + constants.signals.SIGKILL : Number(written);
  if (code <= BY_SIGNAL) return { type: 'exited', code };
  const [signal] =
    Object.entries(constants.signals).find(([, at]) => at === code - BY_SIGNAL) ?? [];
  return { type: 'killed', signal: signal ?? `signal ${code - BY_SIGNAL}` };
}
