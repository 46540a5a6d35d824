/**
 * The stdio transport, as a client: one process is the session, and each line is a message (2025-11-25 transports,
 * "stdio"). No message names the call that it belongs to, as over HTTP+SSE.
 */
import { inBackground } from '../../../lib/background.ts';
import { sleep, type Timer } from '../../../lib/clock.ts';
import type { UpstreamRequestId } from '../../../protocol/ids.ts';
import type { JsonObject, JsonValue } from '../../../protocol/json.ts';
import { readMessage } from '../../../protocol/json-rpc.ts';
import {
  asUpstreamFailure,
  beforeRequest,
  protocolError,
  UpstreamFailure,
} from '../../../model/upstream-failure.ts';
import type { DiscardedMessage } from '../../discarded-message.ts';
import { replyTooLarge, tooLarge } from '../../size-limits.ts';
import { upstreamJson } from '../../http/bodies.ts';
import { SingleStream } from '../single-stream.ts';
import type { OutgoingRequest, Transport, TransportListener } from '../transport.ts';
import type { ProcessOutput } from './process-output.ts';
import {
  ServerProcess,
  type ProcessEnd,
  type ServerCommand,
  type ServerProcessOptions,
} from './server-process.ts';

export interface StdioOptions
  extends ServerCommand, Pick<ServerProcessOptions, 'maxLineBytes' | 'held' | 'clock'> {
  /** How long the process can leave what was written to it unread, in ms. */
  readonly maxUnreadMs: number;
  /** After this time the process ends as soon as no request runs, in ms. */
  readonly maxAgeMs: number;
  readonly output: ProcessOutput;
  /** Called when the process has started. */
  readonly onStart: (pid: number) => void;
  /** Called once, when the process has ended or could not be started. */
  readonly onEnd: (end: StdioEnd) => void;
}

export interface StdioEnd {
  readonly problem: string;
  /** True if the gateway did not want it. */
  readonly isCrash: boolean;
  /** Whether it had sent a message. */
  readonly hasSpoken: boolean;
}

/** A message is written whole, and one more may wait. */
const MAX_UNREAD_BYTES = 16 * 1024 * 1024;
/** How much a server can write that is not JSON-RPC before it sends a message. Each line costs time, too. */
const LARGE_LINE = 'it wrote a line that is too long';
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
/** JSON allows them in texts, and the line reader of Node.js takes each for the end of a line. */
const LINE_SEPARATORS = /[\u2028\u2029]/g;
const ARGUMENTS_HINT =
  '; if it contains arguments, put them into upstream.args or, after --stdio --, write them without quotes around the whole';

const CLOSED = new UpstreamFailure('session_gone', 'the session was closed', {
  mayHaveActed: true,
});

export class StdioTransport extends SingleStream implements Transport {
  readonly kind = 'stdio';
  readonly #options: StdioOptions;
  /** Requests without a reply. */
  readonly #running = new Set<UpstreamRequestId>();
  #process: ServerProcess | null = null;
  /** Why the session is over; `null` while it is not. */
  #failure: UpstreamFailure | null = null;
  #isClosed = false;
  /** The session failed before it was closed. */
  #hasFailed = false;
  #hasSpoken = false;
  #isOld = false;
  #age: Timer | null = null;
  /** The bytes that were not JSON-RPC since the last message. */
  #otherBytes = 0;

  constructor(listener: TransportListener, options: StdioOptions) {
    super(listener);
    this.#options = options;
  }

  /** Starts the process. What it cannot be started for shows at the first request. */
  async open(): Promise<void> {
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

  request({ id, method, params }: OutgoingRequest): void {
    this.#running.add(id);
    this.send({ jsonrpc: '2.0', id, method, params }).then(
      () => this.listener.accepted(id),
      (error: unknown) => {
        this.#running.delete(id);
        this.listener.notTaken(id, asUpstreamFailure(error, false));
      },
    );
  }

  abandon(id: UpstreamRequestId): void {
    this.#running.delete(id);
    this.#endIfOld();
  }

  /** Ends the process, and resolves when nothing of its group is left. */
  close(): Promise<void> {
    return this.#end(false);
  }

  /** Ends the process with less patience, since the gateway stops. A session that is being opened hears of it. */
  stop(): Promise<void> {
    if (this.#failure === null) this.listener.closed(CLOSED);
    return this.#end(true);
  }

  reveals(): boolean {
    return false;
  }

  useRevision(): void {}

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
    for (const message of messages) {
      if (message.type === 'response') this.#running.delete(message.id as UpstreamRequestId);
      this.listener.message(message, { stream: 'standalone' });
    }
    this.#endIfOld();
  }

  /** All calls of the session share the output, so that it ends only if nobody can tell which one the line is for. */
  #drop(line: DiscardedMessage): void {
    if (this.#failure !== null) return;
    const message = line.read();
    const { exceeds } = line;
    if (message.type === 'unknown') return this.#fail(tooLarge(LARGE_LINE, exceeds));
    this.#spoke();
    if (message.type === 'response') this.#running.delete(message.id as UpstreamRequestId);
    this.listener.dropped(message, replyTooLarge(LARGE_LINE, exceeds));
    this.#endIfOld();
  }

  /** The server has sent a message. */
  #spoke(): void {
    if (!this.#hasSpoken) this.#startAge();
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

  /** Counts from the first message, since a process can take long to start. */
  #startAge(): void {
    const { clock, maxAgeMs } = this.#options;
    this.#age = clock.setTimer(maxAgeMs, () => {
      this.#isOld = true;
      this.#endIfOld();
    });
  }

  #endIfOld(): void {
    if (!this.#isOld || this.#running.size > 0) return;
    const problem = 'the process is a day old';
    this.#isClosed = true;
    this.#fail(new UpstreamFailure('session_gone', problem, { mayHaveActed: false }));
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
    const when = this.#hasSpoken ? '' : ' before it replied to initialize';
    const problem = `${what}${when}${this.#options.output.lastWords}`;
    return new UpstreamFailure('upstream_unavailable', problem, { mayHaveActed: this.#hasSpoken });
  }

  async #end(isHurried: boolean): Promise<void> {
    this.#isClosed = true;
    this.#age?.cancel();
    this.#failure ??= CLOSED;
    await this.#process?.end(isHurried || !this.#hasSpoken);
  }

  /** Ends the session, and the process if it still runs. */
  #fail(failure: UpstreamFailure): void {
    if (this.#failure !== null) return;
    this.#failure = failure;
    this.#hasFailed = !this.#isClosed;
    this.#age?.cancel();
    this.listener.closed(failure);
    inBackground(this.#process?.end(failure.code === 'upstream_protocol_error'));
  }

  protected async send(message: JsonObject): Promise<void> {
    const { clock, maxUnreadMs } = this.#options;
    const server = this.#process;
    if (this.#failure !== null) throw beforeRequest(this.#failure);
    if (server === null) throw protocolError('the transport is not open');
    if (server.unreadBytes > MAX_UNREAD_BYTES) {
      const problem = `the process has not read ${server.unreadBytes} bytes`;
      throw new UpstreamFailure('upstream_busy', problem, { mayHaveActed: false });
    }
    const written = server.write(`${oneLine(message)}\n`);
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
}

/** Writes a message as JSON that every server reads as one line. */
function oneLine(message: JsonObject): string {
  return JSON.stringify(message).replace(LINE_SEPARATORS, (separator) =>
    separator === '\u2028' ? '\\u2028' : '\\u2029',
  );
}
