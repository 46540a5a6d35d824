/** A worker as the primary sees it: a forked process, what it has reported, and when it ends. */
import { fork, type ChildProcess } from 'node:child_process';
import type { Socket } from 'node:net';
import type { Clock } from '../lib/clock.ts';
import { COMMAND_FILE, StartFailure } from '../lib/program.ts';
import { NOTHING, type OperatorReply, type OperatorRequest } from '../app/live/operator.ts';
import type { Arrival } from '../fleet/relay/direct/handshake.ts';
import type { Config } from '../config/schema.ts';
import type { StoreReply, StoreRequest } from '../fleet/store/remote-store.ts';
import {
  writeConfig,
  type FromWorker,
  type Sibling,
  type StatusOf,
  type ToWorker,
  type WorkerStatus,
} from './messages.ts';
import type { CountEntries } from './shared-counts.ts';

/** The first argument of a worker's command line. `main.ts` reads it. */
const WORKER_COMMAND = 'worker';
/** A worker that does not respond for longer counts as stuck. */
const STATUS_TIMEOUT_MS = 1_000;
/** Longer than a worker waits for another gateway. */
const OPERATOR_TIMEOUT_MS = { look: STATUS_TIMEOUT_MS, stop: 10_000 };
/** Longer than a worker waits for upstreams. */
const PREPARE_TIMEOUT_MS = 15_000;
const MAX_ARRIVALS = 1_000;

type Question = WithoutNumber<Extract<ToWorker, { type: 'status' | 'prepare' | 'operator' }>>;
type WithoutNumber<Message> = Message extends object ? Omit<Message, 'request'> : never;
type Answer = Extract<FromWorker, { type: 'status' | 'prepared' | 'operator' }>;

export interface WorkerProcessOptions {
  readonly clock: Clock;
  readonly onCounts: (entries: CountEntries) => void;
  /** Called with what a worker asks of the store. @param instance the id of the worker */
  readonly onStore: (asked: StoreRequest, instance: string) => Promise<StoreReply>;
  /** Called when the process has ended, whatever the reason. */
  readonly onEnd: (worker: WorkerProcess) => void;
}

export class WorkerProcess {
  readonly number: number;
  /** Resolves when it takes retries of its siblings. Rejects if it ends before, with the reason. */
  readonly joined: Promise<Sibling>;
  /** Resolves to its origin when it serves clients. Rejects if it ends before, with the reason. */
  readonly serving: Promise<string>;
  /** Resolves when the process has ended. */
  readonly ended: Promise<void>;
  sibling: Sibling | null = null;
  isServing = false;
  /** Whether it gets each further configuration together with the others. */
  isFollowing = false;
  /** The configuration that it has. */
  config: Config;
  /** How it ended; empty while it runs. */
  problem = '';
  /** What it said of why it cannot start. */
  #reason: string | null = null;
  readonly #child: ChildProcess;
  readonly #options: WorkerProcessOptions;
  readonly #joined = Promise.withResolvers<Sibling>();
  readonly #serving = Promise.withResolvers<string>();
  readonly #ended = Promise.withResolvers<void>();
  readonly #requests = new Map<number, (answer: Answer | null) => void>();
  #lastRequest = 0;
  /** Connections that the worker has not confirmed. */
  readonly #arrivals = new Map<number, Socket>();
  #lastArrival = 0;

  constructor(number: number, config: Config, options: WorkerProcessOptions) {
    this.number = number;
    this.config = config;
    this.#options = options;
    this.joined = this.#joined.promise;
    this.serving = this.#serving.promise;
    this.ended = this.#ended.promise;
    for (const promise of [this.joined, this.serving]) promise.catch(() => {});
    this.#child = fork(COMMAND_FILE, [WORKER_COMMAND, String(number)], {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    this.#child.on('message', (message) => this.#receive(message as FromWorker));
    this.#child.once('error', (error) => this.#end(error.message));
    this.#child.once('exit', (code, signal) => this.#end(signal ?? `exit code ${code}`));
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  send(message: ToWorker): void {
    // A worker that has ended needs no message.
    if (this.#child.connected) this.#child.send(message, () => {});
  }

  /**
   * Passes on the connection of a replica. The worker may answer it only when this process has closed its handle:
   * until then it could read what the replica sends next.
   * @returns false if too many connections wait for the worker
   */
  pass({ to, hello, socket, head }: Arrival): boolean {
    // A replica sends nothing before it has an answer.
    if (head.length > 0 || this.#arrivals.size >= MAX_ARRIVALS || !this.#child.connected)
      return false;
    const id = (this.#lastArrival += 1);
    this.#arrivals.set(id, socket);
    const message: ToWorker = { type: 'arrival', id, to, hello };
    // Without `keepOpen` nothing could close a socket that is on its way to a worker that ends.
    this.#child.send(message, socket, { keepOpen: true }, (error) => {
      if (error) this.#letGo(id);
    });
    return true;
  }

  kill(): void {
    this.#child.kill('SIGKILL');
  }

  /** Asks for its state. @returns `null` if it does not respond in time */
  async status(of: StatusOf): Promise<WorkerStatus | null> {
    const answer = await this.#ask(STATUS_TIMEOUT_MS, { type: 'status', of });
    return answer?.type === 'status' ? answer.status : null;
  }

  /** @param isElsewhere whether it also asks the other gateways */
  async serveOperator(asked: OperatorRequest, isElsewhere: boolean): Promise<OperatorReply> {
    const question = { type: 'operator', asked, isElsewhere } as const;
    const answer = await this.#ask(OPERATOR_TIMEOUT_MS[asked.type], question);
    if (answer?.type === 'operator') return answer.reply;
    return { ...NOTHING, missing: [`worker ${this.number}`] };
  }

  /**
   * Has it prepare a configuration. One that ends meanwhile keeps nothing back.
   * @returns what keeps it from using the configuration
   */
  async prepare(config: Config): Promise<readonly string[]> {
    const question = { type: 'prepare', config: writeConfig(config) } as const;
    const answer = await this.#ask(PREPARE_TIMEOUT_MS, question);
    if (answer?.type === 'prepared') return answer.problems;
    return this.problem === '' ? [`worker ${this.number} does not respond`] : [];
  }

  /** Has it use the configuration that it prepared. */
  commit(config: Config): void {
    this.config = config;
    this.send({ type: 'commit' });
  }

  /** @returns the answer; `null` if there is none in time, or the process ends before */
  #ask(waitMs: number, question: Question): Promise<Answer | null> {
    if (this.problem !== '') return Promise.resolve(null);
    const request = (this.#lastRequest += 1);
    return new Promise((resolve) => {
      const finish = (answer: Answer | null) => {
        timer.cancel();
        this.#requests.delete(request);
        resolve(answer);
      };
      const timer = this.#options.clock.setTimer(waitMs, () => finish(null));
      this.#requests.set(request, finish);
      this.send({ ...question, request });
    });
  }

  #receive(message: FromWorker): void {
    switch (message.type) {
      case 'joined':
        this.sibling = { instance: message.instance, address: message.address };
        return this.#joined.resolve(this.sibling);
      case 'serving':
        this.isServing = true;
        return this.#serving.resolve(message.origin);
      case 'counts':
        return this.#options.onCounts(message.entries);
      case 'store': {
        const { request, asked } = message;
        return void this.#options
          .onStore(asked, this.sibling?.instance ?? '')
          .then((reply) => this.send({ type: 'store-reply', request, reply }));
      }
      case 'status':
      case 'operator':
      case 'prepared':
        return this.#requests.get(message.request)?.(message);
      case 'arrived':
        this.#letGo(message.id);
        return this.send({ type: 'accept', id: message.id });
      case 'failed':
        this.#reason = message.message;
        return this.#fail(new StartFailure(message.code, message.message));
    }
  }

  /** Closes the connection of an arrival in this process, and only here if the worker has it. */
  #letGo(id: number): void {
    this.#arrivals.get(id)?.destroy();
    this.#arrivals.delete(id);
  }

  #fail(reason: Error): void {
    this.#joined.reject(reason);
    this.#serving.reject(reason);
  }

  #end(problem: string): void {
    if (this.problem !== '') return;
    this.problem = this.#reason ?? problem;
    this.isServing = false;
    this.#fail(new Error(`worker ${this.number} ended at its start: ${problem}`));
    for (const finish of [...this.#requests.values()]) finish(null);
    for (const id of [...this.#arrivals.keys()]) this.#letGo(id);
    this.#options.onEnd(this);
    this.#ended.resolve();
  }
}
