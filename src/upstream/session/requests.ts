/** Requests of a session that may not ask anything, while they wait for their replies. */
import type { Clock } from '../../lib/clock.ts';
import type { UpstreamRequestId } from '../../protocol/ids.ts';
import type { JsonRpcReply } from '../../protocol/json-rpc.ts';
import type { CallerHeaders, OutgoingRequest, Transport } from '../transport/transport.ts';
import { ClientLeft, UpstreamFailure } from '../failure.ts';

type Settled = JsonRpcReply | UpstreamFailure;
type RequestTransport = Pick<Transport, 'request' | 'notify' | 'abandon'>;

export class SessionRequests {
  readonly #transport: RequestTransport;
  readonly #timeoutMs: number;
  readonly #clock: Clock;
  readonly #waiting = new Map<UpstreamRequestId, (settled: Settled) => void>();

  constructor(transport: RequestTransport, timeoutMs: number, clock: Clock) {
    this.#transport = transport;
    this.#timeoutMs = timeoutMs;
    this.#clock = clock;
  }

  /**
   * Sends a request and waits for what comes of it, at the longest for the time that is set.
   * @param signal aborts when nobody waits any more
   * @throws ClientLeft when the signal aborts, or has aborted already: then nothing is sent
   */
  async send(
    request: OutgoingRequest,
    headers: CallerHeaders,
    signal?: AbortSignal,
  ): Promise<Settled> {
    const { id, method } = request;
    if (signal?.aborted === true) throw new ClientLeft(method);
    const { promise, resolve, reject } = Promise.withResolvers<Settled>();
    this.#waiting.set(id, resolve);
    const timer = this.#clock.setTimer(this.#timeoutMs, () => {
      resolve(timedOut(method, this.#timeoutMs));
      this.#cancel(request, headers);
    });
    const leave = () => {
      reject(new ClientLeft(method));
      this.#cancel(request, headers);
    };
    signal?.addEventListener('abort', leave, { once: true });
    try {
      this.#transport.request(request, headers);
      return await promise;
    } finally {
      this.#waiting.delete(id);
      timer.cancel();
      signal?.removeEventListener('abort', leave);
      this.#transport.abandon(id);
    }
  }

  /** Tells the server that nobody waits any more (lifecycle, "Timeouts"); never of an `initialize`. */
  #cancel({ id, method }: OutgoingRequest, headers: CallerHeaders): void {
    if (method === 'initialize') return;
    const cancelled = { requestId: id, reason: 'the client left before the reply' };
    this.#transport.notify('notifications/cancelled', cancelled, headers).catch(() => {});
  }

  /** Gives a request what it waits for. */
  settle(id: UpstreamRequestId, settled: Settled): void {
    this.#waiting.get(id)?.(settled);
  }

  settleAll(failure: UpstreamFailure): void {
    for (const resolve of this.#waiting.values()) resolve(failure);
  }
}

function timedOut(method: string, afterMs: number): UpstreamFailure {
  return new UpstreamFailure('upstream_timeout', `no reply to ${method} within ${afterMs} ms`, {
    mayHaveActed: true,
  });
}
