/** The legs of one call that wait for an answer, with what each of them brought. */
import type { InputKey } from '../../protocol/ids.ts';
import type { JsonRpcReply } from '../../protocol/json-rpc.ts';
import type { LegId } from '../machine/states.ts';
import { CALL_CANCELLED } from '../../model/failures.ts';
import type { CallReply, EdgeRequest, Leg } from '../../model/request.ts';
import { ThinnedLeg, type Missed } from '../thinned-leg.ts';
import type { ListeningLeg } from './notifications.ts';

/** What goes upstream for each question that a retry answers. */
export type UpstreamReplies = ReadonlyMap<InputKey, JsonRpcReply>;

export interface AttachedLeg extends ListeningLeg {
  readonly request: EdgeRequest;
  readonly replies: UpstreamReplies;
}

interface WaitingLeg extends AttachedLeg {
  readonly leg: ThinnedLeg;
  readonly answer: (answer: CallReply | Promise<CallReply>) => void;
  readonly detach: () => void;
  readonly noticeClosed: () => void;
}

export interface LegsParts {
  /** Called when the client of a leg goes away before it has its answer. */
  readonly closed: (leg: LegId) => void;
  /** Called once for each leg whose client did not hear everything. */
  readonly missed: (missed: Missed) => void;
}

export class Legs {
  readonly #parts: LegsParts;
  readonly #waiting = new Map<LegId, WaitingLeg>();
  /** Called when a leg comes or goes. */
  readonly #changed = new Set<() => void>();
  #nextId: LegId = 1;

  constructor(parts: LegsParts) {
    this.#parts = parts;
  }

  /** Lets a leg wait; the promise is its answer. */
  attach(
    request: EdgeRequest,
    leg: Leg,
    replies: UpstreamReplies,
  ): { readonly id: LegId; readonly answer: Promise<CallReply> } {
    const id = this.#nextId;
    this.#nextId += 1;
    const { promise: answer, resolve } = Promise.withResolvers<CallReply>();
    const thinned = new ThinnedLeg(leg, request.logLevel);
    const onClosed = () => {
      if (!this.#waiting.has(id)) return;
      this.#remove(id, thinned);
      // Nobody reads it, but whoever waits for it has to go on.
      resolve({ kind: 'failed', failure: CALL_CANCELLED });
      this.#parts.closed(id);
    };
    this.#waiting.set(id, {
      leg: thinned,
      request,
      replies,
      progressToken: request.progressToken,
      logLevel: request.logLevel,
      answer: resolve,
      detach: () => leg.closed.removeEventListener('abort', onClosed),
      noticeClosed: () => {
        if (leg.closed.aborted) onClosed();
      },
    });
    leg.closed.addEventListener('abort', onClosed);
    this.#change();
    return { id, answer };
  }

  /** Lets go of a leg whose client was gone before the leg was attached: no event tells of that. */
  noticeClosed(id: LegId): void {
    this.#waiting.get(id)?.noticeClosed();
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
    answer: (leg: AttachedLeg) => CallReply | Promise<CallReply>,
  ): void {
    for (const id of ids) {
      const waiting = this.#waiting.get(id);
      if (waiting === undefined) continue;
      this.#remove(id, waiting.leg);
      waiting.detach();
      waiting.answer(answer(waiting));
    }
  }

  /**
   * Resolves when a client may take more. `null` while one does, since those that are behind hear less
   * then, and while nobody waits: a parked call is read on, and nobody hears what it says.
   */
  backlog(): Promise<void> | null {
    const backlogs: Promise<void>[] = [];
    for (const { leg } of this.#waiting.values()) {
      const { backlog } = leg;
      if (backlog === null) return null;
      backlogs.push(backlog);
    }
    if (backlogs.length === 0) return null;
    return new Promise((resolve) => {
      const go = () => {
        this.#changed.delete(go);
        resolve();
      };
      this.#changed.add(go);
      for (const backlog of backlogs) void backlog.then(go);
    });
  }

  #remove(id: LegId, leg: ThinnedLeg): void {
    this.#waiting.delete(id);
    const missed = leg.end();
    if (missed !== null) this.#parts.missed(missed);
    this.#change();
  }

  #change(): void {
    for (const go of [...this.#changed]) go();
  }
}
