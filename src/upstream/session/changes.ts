/** What changes at the server, for the one who wants to hear of it. */
import type { JsonObject } from '../../protocol/json/json.ts';
import type { UpstreamFailure } from '../failure.ts';

/** What somebody hears of a session who wants to know what changes at the server. */
export interface ChangeListener {
  /** A list changed, or a resource that was subscribed to. */
  changed(method: string, params: JsonObject): void;
  /** Changes may have gone unheard, since the server's stream was cut for a moment. */
  missed(): void;
  /** No change will be heard of any more. */
  lost(failure: UpstreamFailure): void;
}

/** The notifications by which a server says that a list changed. */
export const LIST_CHANGES: readonly string[] = [
  'notifications/tools/list_changed',
  'notifications/prompts/list_changed',
  'notifications/resources/list_changed',
];

/** True for a notification that a list or a resource changed. */
export function isChange(method: string): boolean {
  return LIST_CHANGES.includes(method) || method === 'notifications/resources/updated';
}

export class SessionChanges {
  #listener: ChangeListener | null = null;

  observe(listener: ChangeListener): void {
    this.#listener = listener;
  }

  /** Nobody wants to hear of changes any more. */
  stop(): void {
    this.#listener = null;
  }

  changed(method: string, params: JsonObject): void {
    this.#listener?.changed(method, params);
  }

  missed(): void {
    this.#listener?.missed();
  }

  /** Tells the listener, once, that it will hear of nothing more. */
  lose(failure: UpstreamFailure): void {
    const listener = this.#listener;
    this.#listener = null;
    listener?.lost(failure);
  }
}
