/** An exchange: the upstream's side of one call, which is a legacy request in flight. */
import type { ServerRequestId, UpstreamRequestId } from '../../protocol/ids.ts';
import type { JsonObject } from '../../protocol/json/json.ts';
import type { JsonRpcReply } from '../../protocol/json-rpc.ts';
import type { CallerHeaders, StreamPoint, Transport } from '../transport/transport.ts';
import type { UpstreamFailure } from '../failure.ts';

/** What an interactive call hears of its exchange. Nothing comes after `replied` or `lost`. */
export interface ExchangeListener {
  asked(id: ServerRequestId, method: string, params: JsonObject): void;
  withdrawn(id: ServerRequestId): void;
  /** The server asked what may be a question of another call, and was told so. */
  unanswerable(method: string, cause: 'broadcast'): void;
  notified(method: string, params: JsonObject): void;
  replied(reply: JsonRpcReply): void;
  interrupted(): void;
  resumed(): void;
  lost(failure: UpstreamFailure): void;
  /**
   * Resolves when there may be room for more of the exchange; `null` while there is. A stream that serves
   * this exchange alone is not read meanwhile.
   */
  backlog(): Promise<void> | null;
}

export interface Exchange {
  readonly id: UpstreamRequestId;
  /** Resolves when the server has taken the request; rejects with UpstreamFailure when it has not. */
  readonly accepted: Promise<void>;
  /**
   * Tells the server that nobody waits any more. Never throws.
   * @returns whether the server has taken that (a 2xx to `notifications/cancelled`)
   */
  cancel(reason: string, headers: CallerHeaders): Promise<boolean>;
  /** Where somebody else could take the exchange up, or `null` when nobody could. */
  resumable(): StreamPoint | null;
  /** Closes the stream; nothing more is heard. */
  abandon(): void;
}

/** @param abandoned called when nobody listens to the exchange any more */
export function exchangeOver(
  transport: Transport,
  id: UpstreamRequestId,
  accepted: Promise<void>,
  abandoned: () => void,
): Exchange {
  return {
    id,
    accepted,
    resumable: () => transport.resumable(id),
    cancel: async (reason, headers) => {
      const cancelled = { requestId: id, reason };
      return transport.notify('notifications/cancelled', cancelled, headers).then(
        () => true,
        () => false,
      );
    },
    abandon: () => {
      abandoned();
      transport.abandon(id);
    },
  };
}
