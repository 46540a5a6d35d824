/**
 * The list methods, with what the operator says about keeping their results: how long clients may, and
 * whether the gateway itself answers from what it got last. What is kept for one caller is shown to no
 * other one (caching, "Cache Scope").
 */
import type { Clock } from '../lib/clock.ts';
import type { JsonObject } from '../protocol/json/json.ts';
import { listKey } from './cache-keys.ts';
import type { CallAnswer, EdgeRequest } from '../model/request.ts';
import { RecentMap } from '../lib/lru-map.ts';

export interface ListsOptions {
  /** Asks the server; never rejects. */
  readonly forward: (request: EdgeRequest, closed: AbortSignal) => Promise<CallAnswer>;
  /** How long a list is answered from here, in ms; `0` never. */
  readonly keepMs: number;
  readonly maxKept: number;
  readonly clock: Clock;
}

interface Kept {
  readonly result: JsonObject;
  readonly atMs: number;
}

/** The list that each notification is about. */
const CHANGED: ReadonlyMap<string, readonly string[]> = new Map([
  ['notifications/tools/list_changed', ['tools/list']],
  ['notifications/prompts/list_changed', ['prompts/list']],
  ['notifications/resources/list_changed', ['resources/list', 'resources/templates/list']],
]);

export class Lists {
  readonly #options: ListsOptions;
  readonly #kept = new Map<string, RecentMap<string, Kept>>();
  /** How often each list changed, so that an answer from before is not kept after. */
  readonly #changes = new Map<string, number>();

  constructor(options: ListsOptions) {
    this.#options = options;
    for (const method of [...CHANGED.values()].flat()) {
      this.#kept.set(method, new RecentMap(options.maxKept));
    }
  }

  /** Answers a list method, or passes any other on; never rejects. */
  async list(request: EdgeRequest, closed: AbortSignal): Promise<CallAnswer> {
    const { forward, keepMs, clock } = this.#options;
    const kept = this.#kept.get(request.method);
    if (kept === undefined || keepMs === 0 || request.params['cursor'] !== undefined) {
      return forward(request, closed);
    }
    const key = listKey(request);
    const last = kept.get(key);
    const ageMs = last === undefined ? Infinity : clock.now() - last.atMs;
    if (last !== undefined && ageMs < keepMs) return aged(last.result, ageMs);
    const changes = this.#changes.get(request.method);
    const answer = await forward(request, closed);
    if (answer.kind === 'result' && this.#changes.get(request.method) === changes) {
      kept.set(key, { result: answer.result, atMs: clock.now() });
    }
    return answer;
  }

  /** Hears a notification of the server: what changed is asked for anew. */
  changed(notification: string): void {
    for (const method of CHANGED.get(notification) ?? []) {
      this.#changes.set(method, (this.#changes.get(method) ?? 0) + 1);
      this.#kept.get(method)?.clear();
    }
  }
}

/** Whoever keeps it may do so for the rest of its time only. */
function aged(result: JsonObject, ageMs: number): CallAnswer {
  const { ttlMs } = result;
  if (typeof ttlMs !== 'number') return { kind: 'result', result };
  return { kind: 'result', result: { ...result, ttlMs: Math.max(0, Math.floor(ttlMs - ageMs)) } };
}
