/**
 * The stdio transport, as a client: one process is the session. No message names the call that it belongs to, as over
 * HTTP+SSE.
 */
import type { Timer } from '../../../lib/clock.ts';
import type { UpstreamRequestId } from '../../../protocol/ids.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import type { JsonRpcMessage } from '../../../protocol/json-rpc.ts';
import type { DroppedMessage } from '../../../model/channel.ts';
import { asUpstreamFailure, UpstreamFailure } from '../../../model/upstream-failure.ts';
import { SingleStream } from '../single-stream.ts';
import type { OutgoingRequest, Transport, TransportListener } from '../transport.ts';
import { oneLine } from './one-line.ts';
import { CLOSED, ProcessChannel, type ProcessChannelOptions } from './process-channel.ts';

export interface StdioOptions extends ProcessChannelOptions {
  /** After this time the process ends as soon as no request runs, in ms. */
  readonly maxAgeMs: number;
}

export class StdioTransport extends SingleStream implements Transport {
  readonly kind = 'stdio';
  readonly #options: StdioOptions;
  readonly #channel: ProcessChannel;
  /** Requests without a reply. */
  readonly #running = new Set<UpstreamRequestId>();
  #isOld = false;
  #age: Timer | null = null;

  constructor(listener: TransportListener, options: StdioOptions) {
    super(listener);
    this.#options = options;
    this.#channel = new ProcessChannel(
      {
        messages: (messages) => this.#received(messages),
        dropped: (message, failure) => this.#dropped(message, failure),
        ended: (failure) => {
          this.#age?.cancel();
          listener.closed(failure);
        },
      },
      options,
    );
  }

  /** Starts the process. What it cannot be started for shows at the first request. */
  async open(): Promise<void> {
    this.#channel.start();
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
    this.#age?.cancel();
    return this.#channel.end();
  }

  /** Ends the process with less patience, since the gateway stops. A session that is being opened hears of it. */
  stop(): Promise<void> {
    this.#age?.cancel();
    if (!this.#channel.isOver) this.listener.closed(CLOSED);
    return this.#channel.end(true);
  }

  reveals(): boolean {
    return false;
  }

  useRevision(): void {}

  #received(messages: readonly JsonRpcMessage[]): void {
    this.#startAge();
    for (const message of messages) {
      if (message.type === 'response') this.#running.delete(message.id as UpstreamRequestId);
      this.listener.message(message, { stream: 'standalone' });
    }
    this.#endIfOld();
  }

  #dropped(message: DroppedMessage, failure: UpstreamFailure): void {
    this.#startAge();
    if (message.type === 'response') this.#running.delete(message.id as UpstreamRequestId);
    this.listener.dropped(message, failure);
    this.#endIfOld();
  }

  /** Counts from the first message, since a process can take long to start. */
  #startAge(): void {
    const { clock, maxAgeMs } = this.#options;
    this.#age ??= clock.setTimer(maxAgeMs, () => {
      this.#isOld = true;
      this.#endIfOld();
    });
  }

  #endIfOld(): void {
    if (!this.#isOld || this.#running.size > 0) return;
    const problem = 'the process is a day old';
    this.#channel.giveUp(new UpstreamFailure('session_gone', problem, { mayHaveActed: false }));
  }

  protected send(message: JsonObject): Promise<void> {
    return this.#channel.send(oneLine(message));
  }
}
