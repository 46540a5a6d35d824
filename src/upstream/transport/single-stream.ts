/** What HTTP+SSE and stdio have in common: one stream brings all messages, and the session ends with it. */
import { inBackground } from '../../lib/background.ts';
import type { ServerRequestId } from '../../protocol/ids.ts';
import type { ExactNumber, JsonObject } from '../../protocol/json.ts';
import type { JsonRpcReply } from '../../protocol/json-rpc.ts';
import type { CallerHeaders, TransportListener } from './transport.ts';

export abstract class SingleStream {
  readonly hasSession = true;
  /** No other connection, and no other process, can take the session over. */
  readonly sessionId = null;
  readonly standaloneHeld = false;
  readonly standaloneDue = false;
  protected readonly listener: TransportListener;

  constructor(listener: TransportListener) {
    this.listener = listener;
  }

  /** Sends a message. @throws UpstreamFailure if the server has not taken it */
  protected abstract send(message: JsonObject, headers: CallerHeaders): Promise<void>;

  abstract close(): Promise<void>;

  notify(method: string, params: JsonObject, headers: CallerHeaders): Promise<void> {
    return this.send({ jsonrpc: '2.0', method, params }, headers);
  }

  respond(
    id: ServerRequestId | ExactNumber,
    reply: JsonRpcReply,
    headers: CallerHeaders,
  ): Promise<void> {
    return this.send({ jsonrpc: '2.0', id, ...reply } as JsonObject, headers);
  }

  async openStandaloneStream(): Promise<boolean> {
    this.listener.standaloneOpened();
    return true;
  }

  resumable(): null {
    return null;
  }

  leave(): void {
    inBackground(this.close());
  }
}
