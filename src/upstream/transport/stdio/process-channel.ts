/**
 * A process of a server over stdio as a channel: each line is a message (2025-11-25 transports, "stdio"). Tells messages from
 * other text, and why the process has ended.
 */
import { inBackground } from '../../../lib/background.ts';
import { sleep } from '../../../lib/clock.ts';
import type { Channel, ChannelListener } from '../../../model/channel.ts';
import {
  asUpstreamFailure,
  beforeRequest,
  protocolError,
  UpstreamFailure,
} from '../../../model/upstream-failure.ts';
import type { JsonValue } from '../../../protocol/json.ts';
import { readMessage } from '../../../protocol/json-rpc.ts';
import type { DiscardedMessage } from '../../discarded-message.ts';
import { upstreamJson } from '../../http/bodies.ts';
import { replyTooLarge, tooLarge } from '../../size-limits.ts';
import type { ProcessOutput } from './process-output.ts';
import {
  ServerProcess,
  type ProcessEnd,
  type ServerCommand,
  type ServerProcessOptions,
} from './server-process.ts';

export interface ProcessChannelOptions
  extends ServerCommand, Pick<ServerProcessOptions, 'maxLineBytes' | 'held' | 'clock'> {
  /** How long the process can leave what was written to it unread, in ms. */
  readonly maxUnreadMs: number;
  readonly output: ProcessOutput;
  /** Called when the process has started. */
  readonly onStart: (pid: number) => void;
  /** Called once, when the process has ended or could not be started. */
  readonly onEnd: (end: ChannelEnd) => void;
}

export interface ChannelEnd {
  readonly problem: string;
  /** True if the gateway did not want it. */
  readonly isCrash: boolean;
  /** Whether it had sent a message. */
  readonly hasSpoken: boolean;
}

/** A message is written whole, and one more may wait. */
const MAX_UNREAD_BYTES = 16 * 1024 * 1024;
const LARGE_LINE = 'it wrote a line that is too long';
/** How much a server can write that is not JSON-RPC before it sends a message. Each line costs time, too. */
const MAX_OTHER_BYTES = 1024 * 1024;
const BYTES_PER_LINE = 100;
/** An object, or an array of several (2025-03-26). */
const MAY_BE_MESSAGE = /^\s*[{[]/;
/** How long the end of a process can take to show that does not take what is written, in ms. */
const END_WAIT_MS = 500;
/** The exit codes of a shell for a program that it cannot run. */
const NOT_RUN: ReadonlyMap<number, string> = new Map([
  [126, 'it is not executable'],
  [127, 'it was not found'],
]);
const ARGUMENTS_HINT =
  '; if it contains arguments, put them into upstream.args or, after --stdio --, write them without quotes around the whole';

export const CLOSED = new UpstreamFailure('session_gone', 'the session was closed', {
  mayHaveActed: true,
});

export class ProcessChannel implements Channel {
  readonly #listener: ChannelListener;
  readonly #options: ProcessChannelOptions;
  #process: ServerProcess | null = null;
  /** Why it is over; `null` while it is not. */
  #failure: UpstreamFailure | null = null;
  #isClosed = false;
  /** It failed before it was closed. */
  #hasFailed = false;
  #hasSpoken = false;
  /** The bytes that were not JSON-RPC since the last message. */
  #otherBytes = 0;

  constructor(listener: ChannelListener, options: ProcessChannelOptions) {
    this.#listener = listener;
    this.#options = options;
  }

  /** Starts the process. What it cannot be started for shows when something is sent. */
  start(): void {
    const { output, onStart } = this.#options;
    this.#process = new ServerProcess({
      ...this.#options,
      onLine: (line) => this.#line(line),
      onDiscarded: (line) => this.#drop(line),
      onError: (line) => output.wrote('stderr', line),
      onOutputEnd: () => this.#fail(this.#endFailure('the process closed its standard output')),
      onEnd: (end) => this.#ended(end),
    });
    const { pid } = this.#process;
    if (pid !== null) onStart(pid);
  }

  get isOver(): boolean {
    return this.#failure !== null;
  }

  pause(): void {
    this.#process?.pause();
  }

  resume(): void {
    this.#process?.resume();
  }

  /** No credentials reach a process. */
  renew(): void {}

  async send(line: string): Promise<void> {
    const { clock, maxUnreadMs } = this.#options;
    const server = this.#process;
    if (this.#failure !== null) throw beforeRequest(this.#failure);
    if (server === null) throw protocolError('the transport is not open');
    if (server.unreadBytes > MAX_UNREAD_BYTES) {
      const problem = `the process has not read ${server.unreadBytes} bytes`;
      throw new UpstreamFailure('upstream_busy', problem, { mayHaveActed: false });
    }
    const written = server.write(`${line}\n`);
    const late =
      server.unreadBytes === 0
        ? null
        : clock.setTimer(maxUnreadMs, () =>
            this.#fail(protocolError(`it has not read its standard input for ${maxUnreadMs} ms`)),
          );
    try {
      await written;
    } catch (error) {
      // Why the process has ended says more than that it cannot be written to. It cannot act on a part of a line.
      await Promise.race([server.ended, sleep(clock, END_WAIT_MS)]);
      this.#fail(asUpstreamFailure(error, true));
      throw beforeRequest(this.#failure ?? asUpstreamFailure(error, false));
    } finally {
      late?.cancel();
    }
  }

  /** @param isHurried ends the process with less patience, since the gateway stops */
  async end(isHurried = false): Promise<void> {
    this.#isClosed = true;
    this.#failure ??= CLOSED;
    this.resume();
    await this.#process?.end(isHurried || !this.#hasSpoken);
  }

  /** Ends it for a reason of the gateway, of which the listener hears. */
  giveUp(reason: UpstreamFailure): void {
    this.#isClosed = true;
    this.#fail(reason);
  }

  #line(line: string): void {
    if (this.#failure !== null || line.trim() === '') return;
    if (!MAY_BE_MESSAGE.test(line)) return this.#other(line);
    let value: JsonValue;
    try {
      value = upstreamJson(line);
    } catch (error) {
      const failure = asUpstreamFailure(error, true);
      if (failure.details.cause === undefined) this.#fail(failure);
      else this.#other(line);
      return;
    }
    const messages = (Array.isArray(value) ? value : [value]).map(readMessage);
    // Such as a line of a log in JSON. A request with an id that cannot be kept gets its reply.
    if (messages.every((one) => one.type === 'malformed' && one.id === undefined)) {
      return this.#other(line);
    }
    this.#spoke();
    this.#listener.messages(messages, line);
  }

  /** All that goes on shares the output, so that it ends only if nobody can tell what the line is for. */
  #drop(line: DiscardedMessage): void {
    if (this.#failure !== null) return;
    const message = line.read();
    const { exceeds } = line;
    if (message === null) return this.#fail(tooLarge(LARGE_LINE, exceeds));
    this.#spoke();
    this.#listener.dropped(message, replyTooLarge(LARGE_LINE, exceeds));
  }

  /** The server has sent a message. */
  #spoke(): void {
    this.#hasSpoken = true;
    this.#otherBytes = 0;
  }

  /** Many servers greet or log on standard output, which they must not. The official clients ignore it, too. */
  #other(line: string): void {
    const { output } = this.#options;
    output.wrote('stdout', line);
    this.#otherBytes += Buffer.byteLength(line) + BYTES_PER_LINE;
    if (this.#otherBytes <= MAX_OTHER_BYTES) return;
    this.#fail(protocolError(`what it writes is not JSON-RPC${output.sample}`));
  }

  #ended(end: ProcessEnd): void {
    const { onEnd } = this.#options;
    const failure = this.#failure ?? this.#failureOf(end);
    const isCrash = this.#hasFailed || !this.#isClosed;
    onEnd({ problem: failure.message, isCrash, hasSpoken: this.#hasSpoken });
    this.#fail(failure);
  }

  #failureOf(end: ProcessEnd): UpstreamFailure {
    const { command } = this.#options;
    const reason = end.type === 'exited' && !this.#hasSpoken ? NOT_RUN.get(end.code) : undefined;
    if (reason !== undefined) {
      const hint = /\s/.test(command) ? ARGUMENTS_HINT : '';
      return protocolError(`cannot run ${command}: ${reason}${hint}`);
    }
    if (end.type === 'not-started') {
      const problem = `cannot start a process (is upstream.cwd a folder?): ${end.problem}`;
      return protocolError(problem);
    }
    const how = end.type === 'exited' ? `with exit code ${end.code}` : `by ${end.signal}`;
    return this.#endFailure(`the process ended ${how}`);
  }

  #endFailure(what: string): UpstreamFailure {
    const when = this.#hasSpoken ? '' : ' before it replied to anything';
    const problem = `${what}${when}${this.#options.output.lastWords}`;
    return new UpstreamFailure('upstream_unavailable', problem, { mayHaveActed: this.#hasSpoken });
  }

  /** Ends it, and the process if that still runs. */
  #fail(failure: UpstreamFailure): void {
    if (this.#failure !== null) return;
    this.#failure = failure;
    this.#hasFailed = !this.#isClosed;
    this.resume();
    this.#listener.ended(failure);
    inBackground(this.#process?.end(failure.code === 'upstream_protocol_error'));
  }
}
