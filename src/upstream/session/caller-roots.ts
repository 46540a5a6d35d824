/**
 * The roots of the caller of a session (`upstream.roots: caller`). Some servers ask for them when their session begins. A modern
 * client can be asked only in answer to a call (MRTR, "Supported Requests"), so such a server gets none at first. The first call
 * of the session asks the client; then the server is told that the roots have changed, asks once more, and is answered from here.
 */
import { Closing, sleep, type Clock } from '../../lib/clock.ts';
import { asUpstreamFailure, type UpstreamFailure } from '../../model/upstream-failure.ts';
import type { JsonRpcReply } from '../../protocol/json-rpc.ts';
import type { CallerHeaders, Transport } from '../transport/transport.ts';

/** What is known of a server over all of its sessions. */
export interface RootsHabit {
  /** Whether it was told of roots, and did not ask for them: no other client is asked. */
  isIndifferent: boolean;
}

/** What the roots need of their session. */
interface RootsHost {
  readonly clock: Clock;
  readonly transport: Pick<Transport, 'hasSession' | 'notify'>;
  readonly headers: CallerHeaders;
  /** See `SessionState.noted`. */
  noted(failure: UpstreamFailure): UpstreamFailure;
}

/** How long a server that is told of roots has to ask for them, in ms. */
const ASKS_WITHIN_MS = 1_000;
/** How long a server that has got them can look at them before it gets the call, in ms: it resolves them on its disk, and says nothing after that. */
const SETTLES_MS = 200;

export class CallerRoots {
  readonly #host: RootsHost;
  readonly #habit: RootsHabit;
  /** What the client answered. */
  #answer: JsonRpcReply | null = null;
  /** Resolves when the server has had time to look at them; `null` before the client has answered. */
  #told: Promise<void> | null = null;
  readonly #asked = new Closing();

  constructor(host: RootsHost, habit: RootsHabit) {
    this.#host = host;
    this.#habit = habit;
  }

  /**
   * Whether the client is to be asked. Without a session id the server keeps one state for all of its clients, which no caller may
   * choose for the others.
   */
  get areWanted(): boolean {
    return this.#told === null && !this.#habit.isIndifferent && this.#host.transport.hasSession;
  }

  /**
   * Gives the server what the client answered, unless it got an answer before: for a session the first one counts. Of an error, or an
   * empty list, it hears only if it asks.
   * @param answer `null` if the client was not asked
   * @returns a promise that resolves when the server has had time to look at the roots
   * @throws UpstreamFailure
   */
  tell(answer: JsonRpcReply | null): Promise<void> {
    if (answer !== null) this.#told ??= this.#tell(answer);
    return this.#told ?? Promise.resolve();
  }

  /** Returns the reply to a server that asks; `null` while they are not known here. */
  reply(): JsonRpcReply | null {
    if (this.#answer !== null) {
      this.#habit.isIndifferent = false;
      this.#asked.abort();
    }
    return this.#answer;
  }

  async #tell(answer: JsonRpcReply): Promise<void> {
    const { clock, transport, headers } = this.#host;
    this.#answer = answer;
    if (!hasRoots(answer)) return;
    try {
      await transport.notify('notifications/roots/list_changed', {}, headers);
    } catch (error) {
      this.#told = null;
      throw this.#host.noted(asUpstreamFailure(error, false));
    }
    await sleep(clock, ASKS_WITHIN_MS, this.#asked);
    if (this.#asked.aborted) await sleep(clock, SETTLES_MS);
    else this.#habit.isIndifferent = true;
  }
}

function hasRoots(answer: JsonRpcReply): boolean {
  if ('error' in answer) return false;
  const { roots } = answer.result;
  return Array.isArray(roots) && roots.length > 0;
}
