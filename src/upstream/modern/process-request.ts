/** A request to a process of a modern server: as it is written, and what its sender is told about it. */
import type { PermittedChannel } from '../../model/channel.ts';
import type { ModernListener, ModernServerRequest } from '../../model/modern-server.ts';
import type { Timer } from '../../lib/clock.ts';
import { ACKNOWLEDGED, changesIn } from '../../protocol/changes.ts';
import { objectMember, without, type JsonObject, type JsonValue } from '../../protocol/json.ts';
import { Meta } from '../../protocol/meta.ts';

export class ProcessRequest {
  readonly id: number;
  readonly request: ModernServerRequest;
  readonly listener: ModernListener;
  /** The process to which it was sent; `null` while it was sent to none. */
  channel: PermittedChannel | null = null;
  /** Until it is given up, or sent again. */
  timer: Timer | null = null;
  /** Its sender is behind. */
  isPaused = false;
  #isAcknowledged = false;
  #hasGap = false;

  constructor(id: number, request: ModernServerRequest, listener: ModernListener) {
    this.id = id;
    this.request = request;
    this.listener = listener;
  }

  get isListener(): boolean {
    return this.request.method === 'subscriptions/listen';
  }

  /** Whether it listened to a process that has ended. */
  get hasGap(): boolean {
    return this.#hasGap;
  }

  get wantsLog(): boolean {
    return !this.isListener && this.#meta[Meta.logLevel] !== undefined;
  }

  /** The token of its sender. */
  get progressToken(): JsonValue | undefined {
    return this.#meta['progressToken'];
  }

  /** Builds the message, with an id and a token of ours. @param takesLog whether it gets log messages */
  message(takesLog: boolean): JsonObject {
    const { method, params } = this.request;
    const meta = takesLog ? this.#meta : without(this.#meta, [Meta.logLevel]);
    const token = this.progressToken === undefined ? {} : { progressToken: this.id };
    const _meta = { ...meta, ...token };
    return { jsonrpc: '2.0', id: this.id, method, params: { ...params, _meta } };
  }

  /** Tells progress, or a log message. A sender that is behind can miss it. */
  notify(method: string, params: JsonObject): void {
    if (!this.isPaused) this.listener.notified(method, params);
  }

  /** Tells what it listens to. After a gap, each change that may have been missed is told once. */
  changed(method: string, params: JsonObject): void {
    if (method !== ACKNOWLEDGED || !this.#isAcknowledged) {
      this.#isAcknowledged ||= method === ACKNOWLEDGED;
      return this.listener.notified(method, params);
    }
    if (!this.#hasGap) return;
    this.#hasGap = false;
    const _meta = { [Meta.subscriptionId]: this.id };
    for (const change of changesIn(objectMember(params, 'notifications') ?? {})) {
      this.listener.notified(change.method, { _meta, ...change.params });
    }
  }

  /** The process has ended. */
  lost(): void {
    this.#hasGap = this.#isAcknowledged;
  }

  get #meta(): JsonObject {
    return objectMember(this.request.params, '_meta') ?? {};
  }
}
