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
import { isChange } from './changes.ts';
import { isQuestion, unsolicited } from './open-questions.ts';
import type { MessageSource, Transport } from '../transport/transport.ts';

export interface SessionInboxParts {
  readonly transport: Transport['kind'];
  readonly call: SessionCall;
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
    switch (message.type) {
      case 'response':
        if (typeof message.id === 'number') {
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
    const { call, answer } = this.#parts;
    if (method === 'ping') return answer(id, { result: {} });
    const { listener } = call;
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
    const { call, transport } = this.#parts;
    if (method === 'notifications/progress') return params['progressToken'] === call.id;
    return source.stream === 'request' ? source.id === call.id : transport === 'http-sse';
  }
}
