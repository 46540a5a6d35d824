/** The legs of one call that wait for an answer, with what each of them brought. */
import type { InputKey } from '../../protocol/ids.ts';
import type { JsonRpcReply } from '../../protocol/json-rpc.ts';
import type { LegId } from '../machine/states.ts';
import { CALL_CANCELLED } from '../../model/failures.ts';
import type { CallAnswer, EdgeRequest, Leg } from '../../model/request.ts';
import type { ListeningLeg } from './notifications.ts';

/** What goes upstream for each question that a retry answers. */
export type UpstreamReplies = ReadonlyMap<InputKey, JsonRpcReply>;

export interface AttachedLeg extends ListeningLeg {
  readonly request: EdgeRequest;
  readonly replies: UpstreamReplies;
}

interface WaitingLeg extends AttachedLeg {
  readonly answer: (answer: CallAnswer | Promise<CallAnswer>) => void;
  readonly detach: () => void;
}

export class Legs {
  readonly #closed: (leg: LegId) => void;
  readonly #waiting = new Map<LegId, WaitingLeg>();
  #nextId: LegId = 1;

  /** @param closed called when the client of a leg goes away before it has its answer */
  constructor(closed: (leg: LegId) => void) {
    this.#closed = closed;
  }

  /** Lets a leg wait; the promise is its answer. */
  attach(
    request: EdgeRequest,
    leg: Leg,
    replies: UpstreamReplies,
  ): { readonly id: LegId; readonly answer: Promise<CallAnswer> } {
    const id = this.#nextId;
    this.#nextId += 1;
    const { promise: answer, resolve } = Promise.withResolvers<CallAnswer>();
    const onClosed = () => {
      if (!this.#waiting.delete(id)) return;
      // Nobody reads it, but whoever waits for it has to go on.
      resolve({ kind: 'failed', failure: CALL_CANCELLED });
      this.#closed(id);
    };
    this.#waiting.set(id, {
      leg,
      request,
      replies,
      progressToken: request.progressToken,
      logLevel: request.logLevel,
      answer: resolve,
      detach: () => leg.closed.removeEventListener('abort', onClosed),
    });
    leg.closed.addEventListener('abort', onClosed);
    if (leg.closed.aborted) queueMicrotask(onClosed);
    return { id, answer };
  }

  /** The leg, if it waits still. */
  get(id: LegId): AttachedLeg | undefined {
    return this.#waiting.get(id);
  }

  all(): Iterable<AttachedLeg> {
    return this.#waiting.values();
  }

  /**
   * Lets go of those of these legs that wait still.
   * @param answer makes the answer of each from what it brought
   */
  answer(
    ids: readonly LegId[],
    answer: (leg: AttachedLeg) => CallAnswer | Promise<CallAnswer>,
  ): void {
    for (const id of ids) {
      const waiting = this.#waiting.get(id);
      if (waiting === undefined) continue;
      this.#waiting.delete(id);
      waiting.detach();
      waiting.answer(answer(waiting));
    }
  }
}
