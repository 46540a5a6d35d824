/** Requests of a session that cannot lead to questions, while they wait for their replies. */
import type { Clock, Closed } from '../../lib/clock.ts';
import { ReleasingMap } from '../../lib/containers.ts';
import type { UpstreamRequestId } from '../../protocol/ids.ts';
import type { JsonRpcReply } from '../../protocol/json-rpc.ts';
import type { CallerHeaders, OutgoingRequest, Transport } from '../transport/transport.ts';
import { ClientLeft, UpstreamFailure } from '../../model/upstream-failure.ts';

type RequestOutcome = JsonRpcReply | UpstreamFailure;
type RequestTransport = Pick<Transport, 'request' | 'notify' | 'abandon'>;

export class SessionRequests {
  readonly #transport: RequestTransport;
  readonly #timeoutMs: number;
  readonly #clock: Clock;
  readonly #waiting = new ReleasingMap<UpstreamRequestId, (settled: RequestOutcome) => void>();

  constructor(transport: RequestTransport, timeoutMs: number, clock: Clock) {
    this.#transport = transport;
    this.#timeoutMs = timeoutMs;
    this.#clock = clock;
  }

  /**
   * Sends a request and waits for its reply.
   * @param signal aborts when the reply is no longer wanted
   * @returns the reply, or why there is none within the timeout
   * @throws ClientLeft if the signal aborts; if it has aborted already, nothing is sent
   */
  async send(
    request: OutgoingRequest,
    headers: CallerHeaders,
    signal?: Closed,
  ): Promise<RequestOutcome> {
    const { id, method } = request;
    if (signal?.aborted === true) throw new ClientLeft(method);
    const { promise, resolve, reject } = Promise.withResolvers<RequestOutcome>();
    this.#waiting.set(id, resolve);
    const timer = this.#clock.setTimer(this.#timeoutMs, () => {
      resolve(timedOut(method, this.#timeoutMs));
      this.#cancel(request, headers, `no reply within ${this.#timeoutMs} ms`);
    });
    const leave = () => {
      reject(new ClientLeft(method));
      this.#cancel(request, headers, 'the client left before the reply');
    };
    signal?.addEventListener('abort', leave);
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

  /** Cancels a request at the server (lifecycle, "Timeouts"). `initialize` must not be cancelled. */
  #cancel({ id, method }: OutgoingRequest, headers: CallerHeaders, reason: string): void {
    if (method === 'initialize') return;
    const cancelled = { requestId: id, reason };
    this.#transport.notify('notifications/cancelled', cancelled, headers).catch(() => {});
  }

  /** Ends the wait of a request. */
  settle(id: UpstreamRequestId, settled: RequestOutcome): void {
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
