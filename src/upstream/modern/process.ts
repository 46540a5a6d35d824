/**
 * A modern server over stdio, for the requests of one caller: all share one process, whose output names them by their ids
 * (2026-07-28 transports, "stdio"). The ids and tokens are ours, so that clients of the caller which use the same ones are told
 * apart. The process starts with the first request, again with the next one after it ended, and ends when it is idle.
 */
import { inBackground } from '../../lib/background.ts';
import type { Timer } from '../../lib/clock.ts';
import type { ChannelListener, DroppedMessage, PermittedChannel } from '../../model/channel.ts';
import type {
  ModernListener,
  ModernServer,
  ModernServerRequest,
  SentRequest,
} from '../../model/modern-server.ts';
import { asUpstreamFailure, UpstreamFailure } from '../../model/upstream-failure.ts';
import { objectMember, type JsonObject } from '../../protocol/json.ts';
import type { JsonRpcMessage } from '../../protocol/json-rpc.ts';
import { Meta } from '../../protocol/meta.ts';
import { oneLine } from '../transport/stdio/one-line.ts';
import { ProcessRequest } from './process-request.ts';
import { NO_HEADERS, startProcess, type StartOptions } from './process-start.ts';

export interface ModernProcessOptions extends StartOptions {
  /** How long a process lives that serves nothing, in ms. */
  readonly idleTimeoutMs: number;
  /** Whether no new request comes, so that the process ends as soon as it serves nothing. */
  readonly isRetired?: () => boolean;
  /**
   * Starts a process.
   * @param end called if it has to end for another one
   * @throws UpstreamFailure
   */
  readonly open: (listener: ChannelListener, end: () => void) => Promise<PermittedChannel>;
  /** Called when no process runs and none is wanted. */
  readonly onEmpty: () => void;
}

type Process =
  | { readonly type: 'none' }
  | { readonly type: 'starting'; readonly channel: Promise<PermittedChannel> }
  | { readonly type: 'running'; readonly channel: PermittedChannel };

const NONE: Process = { type: 'none' };
/** How long after its cancellation a request can be the source of a log message, which names none, in ms. */
const LATE_LOG_MS = 5_000;
/** How long a listener waits for the next start after one that failed, in ms, if that is not said. */
const REOPEN_MS = 1_000;

export class ModernProcess implements ModernServer {
  readonly hasHeaders = false;
  readonly #options: ModernProcessOptions;
  #process: Process = NONE;
  readonly #requests = new Map<number, ProcessRequest>();
  #lastId = 0;
  #idle: Timer | null = null;
  /** The request whose log messages come; the last one, if that is over. */
  #logging: { readonly id: number; untilMs: number } | null = null;
  /** Processes that have been told to end. */
  readonly #ending = new Set<Promise<void>>();
  #isClosed = false;

  constructor(options: ModernProcessOptions) {
    this.#options = options;
  }

  /** Whether anything waits for it. */
  get isUsed(): boolean {
    return this.#requests.size > 0;
  }

  send(request: ModernServerRequest, listener: ModernListener): SentRequest {
    const id = (this.#lastId += 1);
    const one = new ProcessRequest(id, request, listener);
    this.#requests.set(id, one);
    if (request.timeoutMs !== null) {
      one.timer = this.#options.clock.setTimer(request.timeoutMs, () => this.#expire(one));
    }
    this.#used();
    inBackground(this.#start(one));
    return {
      cancel: () => this.#cancel(one, 'the client left before the reply'),
      pause: () => this.#pause(one, true),
      resume: () => this.#pause(one, false),
    };
  }

  /** Starts the process, and waits until it has replied. @throws UpstreamFailure */
  async ready(): Promise<void> {
    await this.#channel();
  }

  /** Ends the listeners, whose clients listen elsewhere then. */
  endListening(): void {
    for (const one of [...this.#requests.values()]) if (one.isListener) this.#tearDown(one);
  }

  /** Ends the process as soon as it serves nothing, now that it is retired. */
  retired(): void {
    this.endListening();
    this.#used();
  }

  /** Ends everything. Resolves when no process is left. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#end(CLOSED);
    await Promise.all(this.#ending);
  }

  /** Sends a request, and again if it is a listener whose process could not be started this time. */
  async #start(one: ProcessRequest): Promise<void> {
    try {
      // Its listener is told nothing before `send` returns.
      await Promise.resolve();
      if (this.#isClosed) throw CLOSED;
      const channel = await this.#channel();
      if (!this.#requests.has(one.id)) return;
      one.channel = channel;
      await channel.send(oneLine(one.message(this.#takesLog(one))), NO_HEADERS);
    } catch (error) {
      this.#notSent(one, asUpstreamFailure(error, false));
    }
  }

  #notSent(one: ProcessRequest, failure: UpstreamFailure): void {
    if (!this.#requests.has(one.id)) return;
    one.channel = null;
    const isLater = one.hasGap && failure.code === 'upstream_unavailable' && !this.#isClosed;
    if (!isLater) return this.#fail(one, failure);
    const waitMs = Math.max(failure.details.retryAfterMs ?? 0, REOPEN_MS);
    one.timer = this.#options.clock.setTimer(waitMs, () => inBackground(this.#start(one)));
  }

  #channel(): Promise<PermittedChannel> {
    switch (this.#process.type) {
      case 'running':
        return Promise.resolve(this.#process.channel);
      case 'starting':
        return this.#process.channel;
      case 'none': {
        const channel = this.#open();
        const starting: Process = { type: 'starting', channel };
        this.#process = starting;
        channel.then(
          () => {},
          () => {
            if (this.#process === starting) this.#process = NONE;
            this.#used();
          },
        );
        return channel;
      }
    }
  }

  async #open(): Promise<PermittedChannel> {
    const { open, ...options } = this.#options;
    const end = () => this.#end(EVICTED);
    const id = (this.#lastId += 1);
    const channel = await startProcess((listener) => open(listener, end), id, options, {
      received: (message) => this.#received(message),
      dropped: (message, failure) => this.#dropped(message, failure),
      crashed: (failure) => this.#crashed(channel, failure),
      ending: (ended) => this.#isEnding(ended),
    });
    if (this.#isClosed) {
      this.#isEnding(channel.end());
      throw CLOSED;
    }
    this.#process = { type: 'running', channel };
    this.#used();
    return channel;
  }

  #received(message: JsonRpcMessage): void {
    switch (message.type) {
      case 'response': {
        const one = this.#named(message.id);
        if (one === undefined) return;
        this.#over(one);
        return one.listener.replied(message.reply);
      }
      case 'notification':
        return this.#notified(message.method, message.params);
      // It must send no requests, and gets no responses ("Receiving Messages").
      case 'request':
      case 'malformed':
        return;
    }
  }

  /** Finds the request that a notification is about. One that names none which is open is dropped. */
  #notified(method: string, params: JsonObject): void {
    if (method === 'notifications/message') {
      return this.#named(this.#logging?.id)?.notify(method, params);
    }
    if (method === 'notifications/progress') {
      const one = this.#named(params['progressToken']);
      const token = one?.progressToken;
      if (token === undefined) return;
      return one?.notify(method, { ...params, progressToken: token });
    }
    if (method === 'notifications/cancelled') {
      const one = this.#named(params['requestId']);
      // It ends subscriptions, and nothing else ("Cancellation").
      return one?.isListener === true ? this.#tearDown(one) : undefined;
    }
    const id = objectMember(params, '_meta')?.[Meta.subscriptionId];
    const one = this.#named(id);
    if (one?.isListener === true) one.changed(method, params);
  }

  #named(id: unknown): ProcessRequest | undefined {
    return typeof id === 'number' ? this.#requests.get(id) : undefined;
  }

  #dropped(message: DroppedMessage, failure: UpstreamFailure): void {
    const one = message.type === 'response' ? this.#named(message.id) : undefined;
    if (one !== undefined) this.#fail(one, failure);
  }

  /** Fails what was sent to the process. Listeners go on with the next one (subscriptions, "Graceful Closure"). */
  #crashed(channel: PermittedChannel, failure: UpstreamFailure): void {
    if (this.#process.type === 'running' && this.#process.channel === channel) {
      this.#process = NONE;
      this.#logging = null;
    }
    for (const one of [...this.#requests.values()]) {
      if (one.channel !== channel) continue;
      one.channel = null;
      if (one.isListener && !this.#isClosed) {
        one.lost();
        inBackground(this.#start(one));
      } else this.#fail(one, failure.with({ mayHaveActed: true }));
    }
    this.#used();
  }

  #expire(one: ProcessRequest): void {
    const { method, timeoutMs } = one.request;
    const problem = `no reply to ${method} within ${timeoutMs} ms`;
    const mayHaveActed = one.channel !== null;
    this.#cancel(one, `no reply within ${timeoutMs} ms`);
    one.listener.failed(new UpstreamFailure('upstream_timeout', problem, { mayHaveActed }));
  }

  /** Tells the process that nobody waits any more (cancellation, "Transport-Specific Cancellation"). */
  #cancel(one: ProcessRequest, reason: string): void {
    if (!this.#requests.has(one.id)) return;
    if (this.#logging?.id === one.id) {
      this.#logging.untilMs = this.#options.clock.elapsed() + LATE_LOG_MS;
    }
    const { channel } = one;
    this.#over(one);
    if (channel === null) return;
    const params = { requestId: one.id, reason };
    const line = oneLine({ jsonrpc: '2.0', method: 'notifications/cancelled', params });
    // A process that has ended does no work.
    channel.send(line, NO_HEADERS).catch(() => {});
  }

  /** Ends a subscription gracefully for its client. */
  #tearDown(one: ProcessRequest): void {
    this.#cancel(one, 'the subscription is over');
    const _meta = { [Meta.subscriptionId]: one.id };
    one.listener.replied({ result: { resultType: 'complete', _meta } });
  }

  #fail(one: ProcessRequest, failure: UpstreamFailure): void {
    if (!this.#requests.has(one.id)) return;
    this.#over(one);
    one.listener.failed(failure);
  }

  #over(one: ProcessRequest): void {
    one.timer?.cancel();
    this.#requests.delete(one.id);
    this.#used();
  }

  #pause(one: ProcessRequest, isPaused: boolean): void {
    one.isPaused = isPaused;
    this.#used();
  }

  /**
   * Decides whether a request gets its log messages. They name no request, so that one at a time has any, which runs alone when it
   * begins: the process sends none for requests without a level (logging, "Per-request log level").
   */
  #takesLog(one: ProcessRequest): boolean {
    if (!one.wantsLog) return false;
    const runsAlone = [...this.#requests.values()].every(
      (each) => each === one || each.isListener || each.channel === null,
    );
    const nowMs = this.#options.clock.elapsed();
    if (!runsAlone || (this.#logging?.untilMs ?? 0) > nowMs) return false;
    this.#logging = { id: one.id, untilMs: 0 };
    return true;
  }

  /**
   * Tells what the process is used for, and lets it end when that is nothing. It is not read while all that wait are behind; what is
   * about one of several that is behind is dropped.
   */
  #used(): void {
    this.#idle?.cancel();
    this.#idle = null;
    const open = [...this.#requests.values()];
    if (this.#process.type === 'running') {
      const { channel } = this.#process;
      const isAsked = open.some((one) => !one.isListener);
      channel.use(isAsked ? 'request' : open.length > 0 ? 'stream' : 'none');
      if (open.length > 0 && open.every((one) => one.isPaused)) channel.pause();
      else channel.resume();
    }
    if (open.length > 0) return;
    if (this.#process.type === 'none') return this.#options.onEmpty();
    if (this.#process.type === 'starting') return;
    const { clock, idleTimeoutMs, isRetired } = this.#options;
    const afterMs = isRetired?.() === true ? 0 : idleTimeoutMs;
    this.#idle = clock.setTimer(afterMs, () => this.#end(CLOSED));
  }

  /** Ends the process, and what waits for it. */
  #end(failure: UpstreamFailure): void {
    const ended = this.#process;
    this.#process = NONE;
    this.#logging = null;
    if (ended.type === 'running') this.#isEnding(ended.channel.end());
    for (const one of [...this.#requests.values()]) {
      this.#fail(one, failure.with({ mayHaveActed: one.channel !== null }));
    }
    this.#used();
  }

  #isEnding(end: Promise<void>): void {
    const ended = end.finally(() => this.#ending.delete(ended));
    this.#ending.add(ended);
    inBackground(ended);
  }
}

const failureOf = (problem: string, code: 'session_gone' | 'upstream_busy') =>
  new UpstreamFailure(code, problem, { mayHaveActed: false });
const CLOSED = failureOf('the process was ended', 'session_gone');
const EVICTED = failureOf('the process ended for that of another caller', 'upstream_busy');
