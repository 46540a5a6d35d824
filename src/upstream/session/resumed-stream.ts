/** The stream of a call that was resumed with `Last-Event-ID`, and what it was seen to carry since. */
import {
  serverRequestId,
  upstreamRequestId,
  type ServerRequestId,
  type UpstreamRequestId,
} from '../../protocol/ids.ts';
import type { JsonRpcMessage } from '../../protocol/json-rpc.ts';
import { relatedTaskOf } from '../../protocol/task.ts';
import { type BroadcastDetector, isOfSameSession } from '../discovery/broadcast-detector.ts';
import type { CallTask } from './call-exchange.ts';
import { isQuestion } from './questions/routing.ts';

/** What to do with a message on the stream of a call. */
export type StreamCheck =
  | { readonly type: 'accepted' | 'ignored' }
  /** The stream carries messages of another call. */
  | { readonly type: 'mixed'; readonly problem: string };

/** The call, as far as its stream shows it. */
interface StreamedCall {
  readonly id: UpstreamRequestId;
  readonly task: CallTask | null;
  wasAsked(id: ServerRequestId): boolean;
}

const ACCEPTED: StreamCheck = { type: 'accepted' };
const IGNORED: StreamCheck = { type: 'ignored' };

export class ResumedStream {
  readonly #call: StreamedCall;
  readonly #detector: BroadcastDetector;
  #state: 'unverified' | 'verified' | 'shared' = 'unverified';

  constructor(call: StreamedCall, detector: BroadcastDetector) {
    this.#call = call;
    this.#detector = detector;
  }

  /** True if no message on it has named the call yet. */
  get isUnverified(): boolean {
    return this.#state === 'unverified';
  }

  /** True if it carried messages of other requests of the session. */
  get isShared(): boolean {
    return this.#state === 'shared';
  }

  /** It was resumed once more. */
  resumedAgain(): void {
    if (this.#state !== 'shared') this.#state = 'unverified';
  }

  /**
   * Checks a message: an event store that mixes streams delivers messages of other
   * sessions there. A message that names a request has to name this one. A message that names none is
   * accepted from a server that was never seen to mix streams, or after the call was named.
   * @param isOwnId whether the session issued an id in this process
   */
  check(
    message: JsonRpcMessage<unknown>,
    isOwnId: (id: UpstreamRequestId) => boolean,
  ): StreamCheck {
    const named = requestNamedIn(message);
    if (named !== undefined) {
      const { id, task } = this.#call;
      if (named === id || named === task?.progressToken) {
        if (this.#state === 'unverified') this.#state = 'verified';
        return ACCEPTED;
      }
      // A store may repeat what the session was sent on other streams, here or in the process that had it before.
      const isId = typeof named === 'number' || typeof named === 'string';
      if (isId && (isOwnId(upstreamRequestId(named)) || isOfSameSession(id, named))) {
        this.#state = 'shared';
        return ACCEPTED;
      }
      const what = message.type === 'response' ? 'the reply to' : 'progress of';
      return { type: 'mixed', problem: `the resumed stream carried ${what} another request` };
    }
    return this.#state === 'unverified' ? this.#checkUnverified(message) : ACCEPTED;
  }

  #checkUnverified(message: JsonRpcMessage<unknown>): StreamCheck {
    if (message.type === 'notification' && message.method === 'notifications/cancelled') {
      const { requestId } = message.params;
      const isId = typeof requestId === 'string' || typeof requestId === 'number';
      // A tool of the TypeScript SDK that is cancelled also takes back what was answered before the stream was resumed.
      return isId && this.#call.wasAsked(serverRequestId(requestId)) ? ACCEPTED : IGNORED;
    }
    if (!this.#detector.mixesStreams) return ACCEPTED;
    if (message.type !== 'request') return IGNORED;
    const taskId = this.#call.task?.taskId ?? null;
    if (taskId !== null && relatedTaskOf(message.params) === taskId) return ACCEPTED;
    if (!isQuestion(message.method)) return message.method === 'ping' ? ACCEPTED : IGNORED;
    const problem = 'the server is known to mix streams, and asked before it named the call';
    return { type: 'mixed', problem };
  }
}

/** The request of ours that a message names: that of a reply, or the token of progress. */
function requestNamedIn(message: JsonRpcMessage<unknown>): unknown {
  if (message.type === 'response') return message.id;
  if (message.type !== 'notification' || message.method !== 'notifications/progress') {
    return undefined;
  }
  return message.params['progressToken'] ?? null;
}
