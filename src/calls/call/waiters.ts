/** The clients that wait for a call: who they are, what they are notified of, and whether they keep up. */
import { inBackground } from '../../lib/background.ts';
import type { CallReply, EdgeRequest, Waiter } from '../../model/request.ts';
import type { InputKey } from '../../protocol/ids.ts';
import type { JsonObject } from '../../protocol/json.ts';
import type { JsonRpcReply } from '../../protocol/json-rpc.ts';
import type { WaiterId } from '../machine/states.ts';
import { LossyWaiter, Notifications, type ListeningWaiter } from '../notifications.ts';

/** What goes upstream for each question that a retry answers. */
export type UpstreamReplies = ReadonlyMap<InputKey, JsonRpcReply>;

/** A waiter that waits for its reply. */
export interface WaitingWaiter {
  readonly id: WaiterId;
  readonly waiter: Waiter;
  /** What notifications go through on their way to the waiter; `null` until there is one. */
  lossy: LossyWaiter | null;
  readonly request: EdgeRequest;
  readonly replies: UpstreamReplies;
  readonly reply: (reply: CallReply) => void;
  /** Called if the client closes its connection. */
  readonly onClosed: () => void;
}

export class Waiters {
  /** In the order in which they came. */
  readonly #waiting: WaitingWaiter[] = [];
  #lastId: WaiterId = 0;
  /** Called when a waiter comes or goes; `null` until somebody waits for that. */
  #listeners: Set<() => void> | null = null;
  /** `null` until the server sends a notification. */
  #notifications: Notifications | null = null;

  get all(): readonly WaitingWaiter[] {
    return this.#waiting;
  }

  nextId(): WaiterId {
    return (this.#lastId += 1);
  }

  add(waiting: WaitingWaiter): void {
    this.#waiting.push(waiting);
    waiting.waiter.closed.addEventListener('abort', waiting.onClosed);
    this.#tellListeners();
  }

  /** Returns the waiter, if it still waits. */
  find(id: WaiterId): WaitingWaiter | undefined {
    return this.#waiting.find((waiting) => waiting.id === id);
  }

  /** Removes a waiter. Returns it if it still waited. */
  remove(id: WaiterId): WaitingWaiter | undefined {
    const waiting = this.find(id);
    if (waiting === undefined) return undefined;
    this.#waiting.splice(this.#waiting.indexOf(waiting), 1);
    waiting.waiter.closed.removeEventListener('abort', waiting.onClosed);
    this.#tellListeners();
    return waiting;
  }

  /** Passes a notification of the server to the waiters that want it. */
  notify(method: string, params: JsonObject): void {
    this.#notifications ??= new Notifications();
    // A waiter can leave meanwhile.
    this.#notifications.deliver(method, params, this.#waiting.map(listening));
  }

  /** Sends a waiter that came later the last progress. */
  catchUp(id: WaiterId): void {
    const waiting = this.find(id);
    if (waiting !== undefined) this.#notifications?.catchUp(listening(waiting));
  }

  /** Forgets the progress of a request that is over. */
  forgetProgress(): void {
    this.#notifications = null;
  }

  /**
   * Tells whether the clients are behind.
   * @returns a promise that resolves when one of them catches up or leaves; `null` while one keeps up, since
   *   those that are behind miss notifications then, and while no client waits
   */
  backlog(): Promise<void> | null {
    const backlogs: Promise<void>[] = [];
    for (const { waiter } of this.#waiting) {
      const { backlog } = waiter;
      if (backlog === null) return null;
      backlogs.push(backlog);
    }
    if (backlogs.length === 0) return null;
    const listeners = (this.#listeners ??= new Set());
    return new Promise((resolve) => {
      const go = () => {
        listeners.delete(go);
        resolve();
      };
      listeners.add(go);
      for (const backlog of backlogs) inBackground(backlog.then(go));
    });
  }

  #tellListeners(): void {
    if (this.#listeners !== null) for (const tell of [...this.#listeners]) tell();
  }
}

function listening(waiting: WaitingWaiter): ListeningWaiter {
  const { waiter, request } = waiting;
  waiting.lossy ??= new LossyWaiter(waiter, request.logLevel);
  return { waiter: waiting.lossy, request };
}
