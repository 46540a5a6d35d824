/** Messages of one session that wait while it is found out whether a question was broadcast. */
import type { JsonRpcMessage } from '../../protocol/json-rpc.ts';
import type { MessageSource } from '../transport/transport.ts';

/** Beyond this number notifications are dropped. */
const MAX_MESSAGES = 256;
/** Beyond this size the session is closed: it cannot go on with messages left out. */
const MAX_BYTES = 8 * 1024 * 1024;

export class HeldMessages {
  readonly #messages: [JsonRpcMessage, MessageSource][] = [];
  #bytes = 0;

  /** @returns false if there is no room for the message */
  add(message: JsonRpcMessage, source: MessageSource): boolean {
    const isNotification = message.type === 'notification';
    if (isNotification && this.#messages.length >= MAX_MESSAGES) return true;
    const bytes = Buffer.byteLength(JSON.stringify(message));
    if (this.#bytes + bytes > MAX_BYTES) return isNotification;
    this.#bytes += bytes;
    this.#messages.push([message, source]);
    return true;
  }

  /** Takes all messages, in their order. */
  takeAll(): [JsonRpcMessage, MessageSource][] {
    this.#bytes = 0;
    return this.#messages.splice(0);
  }
}
