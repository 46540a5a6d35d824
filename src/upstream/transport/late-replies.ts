/** Requests without a stream of their own whose replies other streams of their session can still bring. */
import type { Clock, Timer } from '../../lib/clock.ts';
import type { UpstreamRequestId } from '../../protocol/ids.ts';
import type { UpstreamFailure } from '../../model/upstream-failure.ts';

export interface AwaitedReply {
  readonly id: UpstreamRequestId;
  /** Why the request is lost if the reply does not come. */
  readonly failure: UpstreamFailure;
  readonly withinMs: number;
  /** Whether a stream is left that can bring it. */
  readonly canCome: () => boolean;
}

export class LateReplies {
  readonly #clock: Clock;
  readonly #lost: (id: UpstreamRequestId, failure: UpstreamFailure) => void;
  readonly #awaited = new Map<UpstreamRequestId, AwaitedReply & { readonly expiry: Timer }>();

  /** @param lost is told once of each request whose reply does not come any more */
  constructor(clock: Clock, lost: (id: UpstreamRequestId, failure: UpstreamFailure) => void) {
    this.#clock = clock;
    this.#lost = lost;
  }

  /** Waits for a reply, unless it cannot come. */
  wait(awaited: AwaitedReply): void {
    const { id, failure, withinMs, canCome } = awaited;
    if (!canCome()) return this.#lost(id, failure);
    const expiry = this.#clock.setTimer(withinMs, () => this.#lose(id));
    this.#awaited.set(id, { ...awaited, expiry });
  }

  /** The reply is no longer waited for: it has come, for example. */
  forget(id: UpstreamRequestId): void {
    this.#awaited.get(id)?.expiry.cancel();
    this.#awaited.delete(id);
  }

  /** A stream of the session has ended. */
  streamEnded(): void {
    for (const { id, canCome } of [...this.#awaited.values()]) if (!canCome()) this.#lose(id);
  }

  #lose(id: UpstreamRequestId): void {
    const awaited = this.#awaited.get(id);
    if (awaited === undefined) return;
    this.forget(id);
    this.#lost(id, awaited.failure);
  }
}
