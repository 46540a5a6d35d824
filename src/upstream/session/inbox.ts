/**
 * Whom a message from the server concerns. Real servers ask on streams that name no call; what arrives
 * beside the stream of a session's call is then that call's own.
 */
import {
  serverRequestId,
  upstreamRequestId,
  type ServerRequestId,
  type UpstreamRequestId,
} from '../../protocol/ids.ts';
import type { ExactNumber, JsonObject } from '../../protocol/json/json.ts';
import { ErrorCode, type JsonRpcMessage, type JsonRpcReply } from '../../protocol/json-rpc.ts';
import type { SessionCall } from './call-slot.ts';
import type { CrossTalk, Party } from '../cross-talk.ts';
import { isChange } from './changes.ts';
import { BROADCAST, isQuestion, unsolicited } from './open-questions.ts';
import type { MessageSource, Transport } from '../transport/transport.ts';

export interface SessionInboxParts {
  readonly transport: Transport['kind'];
  readonly call: SessionCall;
  readonly crossTalk: CrossTalk;
  /** This session, as `CrossTalk` knows it. */
  readonly party: Party;
  /** Called when the stream of the call brings what belongs to another one. */
  readonly mixed: (id: UpstreamRequestId, problem: string) => void;
  /** Called with the reply to a request of ours. */
  readonly replied: (id: UpstreamRequestId, reply: JsonRpcReply) => void;
  /** Answers a request of the server that is for nobody. */
  readonly answer: (id: ServerRequestId | ExactNumber, reply: JsonRpcReply) => void;
  /** Called with each notification that a list or a resource changed. */
  readonly changed: (method: string, params: JsonObject) => void;
  /** Called with each URL elicitation that the server says is complete. */
  readonly visited: (elicitationId: string) => void;
}

export class SessionInbox {
  readonly #parts: SessionInboxParts;

  constructor(parts: SessionInboxParts) {
    this.#parts = parts;
  }

  take(message: JsonRpcMessage, source: MessageSource): void {
    if (!this.#fits(message, source)) return;
    switch (message.type) {
      case 'response':
        if (message.id !== null) {
          this.#parts.replied(upstreamRequestId(message.id), message.reply);
        }
        return;
      case 'request':
        this.#onRequest(serverRequestId(message.id), message.method, message.params, source);
        return;
      case 'notification':
        this.#onNotification(message.method, message.params, source);
        return;
      case 'malformed':
        // Whoever asks under an id that we cannot keep is not left to wait.
        if (message.id !== undefined) {
          const error = { code: ErrorCode.invalidRequest, message: message.problem };
          this.#parts.answer(message.id, { error });
        }
        return;
    }
  }

  #onRequest(id: ServerRequestId, method: string, params: JsonObject, source: MessageSource): void {
    const { call, answer, crossTalk, transport } = this.#parts;
    if (method === 'ping') return answer(id, { result: {} });
    const { listener } = call;
    if (transport === 'http-sse' && isQuestion(method)) {
      // The stream may be everybody's, and whoever asked is waiting for another session's answer.
      if (listener === null || call.id === null) return;
      if (!crossTalk.isSurelyOf(call.id)) {
        listener.unanswerable(method, 'broadcast');
        return answer(id, BROADCAST);
      }
    }
    const isOurs = source.stream === 'standalone' || source.id === call.id;
    if (listener !== null && isOurs && isQuestion(method)) {
      return call.asked(listener, id, method, params);
    }
    answer(id, unsolicited(method, listener !== null));
  }

  #onNotification(method: string, params: JsonObject, source: MessageSource): void {
    const { call, changed, visited } = this.#parts;
    if (method === 'notifications/cancelled') {
      const { requestId: id } = params;
      if (typeof id === 'string' || typeof id === 'number') call.withdrawn(serverRequestId(id));
    } else if (method === 'notifications/elicitation/complete') {
      if (typeof params['elicitationId'] === 'string') visited(params['elicitationId']);
    } else if (isChange(method)) {
      changed(method, params);
    } else if (this.#concernsCall(method, params, source)) {
      call.notified(method, params);
    }
  }

  /**
   * Progress names its request. A log message relates to a request only when it comes on that
   * request's stream; over HTTP+SSE there is one stream for all, and one call at a time on it.
   */
  #concernsCall(method: string, params: JsonObject, source: MessageSource): boolean {
    const { call, crossTalk, transport } = this.#parts;
    if (method === 'notifications/progress') return params['progressToken'] === call.id;
    if (source.stream === 'request') return source.id === call.id;
    return transport === 'http-sse' && call.id !== null && crossTalk.isSurelyOf(call.id);
  }

  /**
   * Looks at what comes on a stream that was taken up by `Last-Event-ID`: a server whose event store mixes
   * streams gives there what was for another session. What names a request must name the call; what names
   * none is believed of a server that was never seen to mix streams, and else not before the call was named.
   * @returns false when the message is not to be heard
   */
  #fits(message: JsonRpcMessage, source: MessageSource): boolean {
    const { call, crossTalk, mixed } = this.#parts;
    const { id } = call;
    if (!call.takenUp || id === null || source.stream !== 'request' || source.id !== id)
      return true;
    const named = nameIn(message);
    if (named !== undefined) {
      if (named === id) {
        call.onTrial = false;
        return true;
      }
      if (this.#isOfThisSession(named)) return true;
      mixed(id, `the stream that was taken up brought ${described(message)} of another request`);
      return false;
    }
    if (!call.onTrial) return true;
    if (message.type === 'notification' && message.method === 'notifications/cancelled') {
      const { requestId } = message.params;
      const asked = typeof requestId === 'string' || typeof requestId === 'number';
      if (asked && call.hasHeard(serverRequestId(requestId))) return true;
      mixed(
        id,
        'the stream that was taken up brought the withdrawal of a question of another request',
      );
      return false;
    }
    if (!crossTalk.mixes) return true;
    if (message.type === 'request' && isQuestion(message.method)) {
      mixed(id, 'the server is known to mix streams, and asked before anything named the call');
    }
    return message.type === 'request' && message.method === 'ping';
  }

  /** A store may repeat what the session was sent on other streams. */
  #isOfThisSession(named: unknown): boolean {
    const { crossTalk, party } = this.#parts;
    const isId = typeof named === 'number' || typeof named === 'string';
    return isId && crossTalk.isIssuedBy(upstreamRequestId(named), party);
  }
}

/** The request of ours that a message names: that of a reply, or the token of progress. */
function nameIn(message: JsonRpcMessage): unknown {
  if (message.type === 'response') return message.id;
  if (message.type !== 'notification' || message.method !== 'notifications/progress') {
    return undefined;
  }
  return message.params['progressToken'] ?? null;
}

function described({ type }: JsonRpcMessage): string {
  return type === 'response' ? 'the reply' : 'progress';
}
