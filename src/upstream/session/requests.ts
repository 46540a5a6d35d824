/** Requests of a session that cannot lead to questions, while they wait for their replies. */
import { inBackground } from '../../lib/background.ts';
import type { Clock, Closed } from '../../lib/clock.ts';
import { ReleasingMap } from '../../lib/containers.ts';
import type { UpstreamRequestId } from '../../protocol/ids.ts';
import type { JsonRpcReply } from '../../protocol/json-rpc.ts';
import type { CallerHeaders, OutgoingRequest, Transport } from '../transport/transport.ts';
import { ClientLeft, UpstreamFailure } from '../../model/upstream-failure.ts';

/** A reply, or why there is none. */
export type RequestOutcome = JsonRpcReply | UpstreamFailure;
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
    const cancel = (reason: string) => {
      // It must not be cancelled (cancellation, "Behavior Requirements").
      if (method !== 'initialize') inBackground(this.cancel(id, reason, headers));
    };
    const timer = this.#clock.setTimer(this.#timeoutMs, () => {
      const problem = `no reply to ${method} within ${this.#timeoutMs} ms`;
      resolve(new UpstreamFailure('upstream_timeout', problem, { mayHaveActed: true }));
      cancel(`no reply within ${this.#timeoutMs} ms`);
    });
    const leave = () => {
      reject(new ClientLeft(method));
      cancel('the client left before the reply');
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

  /**
   * Tells the server that the reply to a request is no longer wanted (lifecycle, "Timeouts"). Never rejects.
   * @returns whether the server has taken that
   */
  cancel(id: UpstreamRequestId, reason: string, headers: CallerHeaders): Promise<boolean> {
    const sent = this.#transport.notify(
      'notifications/cancelled',
      { requestId: id, reason },
      headers,
    );
    return sent.then(
      () => true,
      () => false,
    );
  }

  /** Ends the wait of a request. */
  settle(id: UpstreamRequestId, settled: RequestOutcome): void {
    this.#waiting.get(id)?.(settled);
  }

  settleAll(failure: UpstreamFailure): void {
    for (const resolve of this.#waiting.values()) resolve(failure);
  }
}
