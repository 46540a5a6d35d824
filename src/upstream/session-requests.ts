/** Requests of a session that may not ask anything, while they wait for their replies. */
import type { Clock } from '../clock.ts';
import type { UpstreamRequestId } from '../protocol/ids.ts';
import type { JsonRpcReply } from '../protocol/json-rpc.ts';
import type { CallerHeaders, OutgoingRequest, Transport } from './transport.ts';
import { asUpstreamFailure, UpstreamFailure } from './upstream-failure.ts';

export class SessionRequests {
  readonly #transport: Transport;
  readonly #timeoutMs: number;
  readonly #clock: Clock;
  readonly #waiting = new Map<UpstreamRequestId, (reply: JsonRpcReply | UpstreamFailure) => void>();

  constructor(transport: Transport, timeoutMs: number, clock: Clock) {
    this.#transport = transport;
    this.#timeoutMs = timeoutMs;
    this.#clock = clock;
  }

  /**
   * Sends a request and waits for what comes of it, at the longest for the time that is set.
   * @param signal ends the waiting early
   */
  async send(
    request: OutgoingRequest,
    headers: CallerHeaders,
    signal?: AbortSignal,
  ): Promise<JsonRpcReply | UpstreamFailure> {
    const { id, method } = request;
    const reply = new Promise<JsonRpcReply | UpstreamFailure>((resolve) => {
      this.#waiting.set(id, resolve);
    });
    const abort = () => {
      this.settle(id, timedOut(method, this.#timeoutMs));
      this.#cancel(request, headers);
    };
    const timer = this.#clock.setTimer(this.#timeoutMs, abort);
    signal?.addEventListener('abort', abort, { once: true });
    try {
      this.#transport.request(request, headers).catch((error: unknown) => {
        this.settle(id, asUpstreamFailure(error, true));
      });
      return await reply;
    } finally {
      timer.cancel();
      signal?.removeEventListener('abort', abort);
      this.#transport.abandon(id);
    }
  }

  /** Tells the server that nobody waits any more (lifecycle, "Timeouts"); never of an `initialize`. */
  #cancel({ id, method }: OutgoingRequest, headers: CallerHeaders): void {
    if (method === 'initialize') return;
    const cancelled = { requestId: id, reason: 'nobody waits for the answer any more' };
    this.#transport.notify('notifications/cancelled', cancelled, headers).catch(() => {});
  }

  /** Gives a request what it waits for. */
  settle(id: UpstreamRequestId, reply: JsonRpcReply | UpstreamFailure): void {
    const resolve = this.#waiting.get(id);
    this.#waiting.delete(id);
    resolve?.(reply);
  }

  settleAll(failure: UpstreamFailure): void {
    for (const id of [...this.#waiting.keys()]) this.settle(id, failure);
  }
}

function timedOut(method: string, afterMs: number): UpstreamFailure {
  return new UpstreamFailure('upstream_timeout', `no reply to ${method} within ${afterMs} ms`, {
    mayHaveActed: true,
  });
}
