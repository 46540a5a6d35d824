/**
 * Serves the list methods, from a cache if the operator allows it. What is cached for one caller is shown
 * to no other one (caching, "Cache Scope").
 */
import type { Clock, Closed } from '../lib/clock.ts';
import {
  type JsonObject,
  without,
  type JsonValue,
  canonicalJson,
  numberOf,
} from '../protocol/json.ts';
import { callerKey, type CallReply, type EdgeRequest } from '../model/request.ts';
import { LruMap } from '../lib/containers.ts';
import { profileKey } from '../protocol/translate/client-profile.ts';
import { upstreamParams } from '../protocol/translate/cleaning.ts';
import { sha256 } from '../lib/crypto.ts';

export interface ListCacheOptions {
  /** Asks the server; never rejects. */
  readonly forward: (request: EdgeRequest, closed: Closed) => Promise<CallReply>;
  /** How long a list is served from the cache, in ms; `0` disables the cache. */
  readonly keepMs: number;
  readonly maxKept: number;
  readonly clock: Clock;
}

interface CachedList {
  readonly result: JsonObject;
  readonly atMs: number;
}

/** The lists that each notification is about. */
const CHANGED: ReadonlyMap<string, readonly string[]> = new Map([
  ['notifications/tools/list_changed', ['tools/list']],
  ['notifications/prompts/list_changed', ['prompts/list']],
  ['notifications/resources/list_changed', ['resources/list', 'resources/templates/list']],
]);

export class ListCache {
  readonly #options: ListCacheOptions;
  readonly #cached = new Map<string, LruMap<string, CachedList>>();
  /** How often each list changed, so that a reply from before a change is not cached after it. */
  readonly #changes = new Map<string, number>();

  constructor(options: ListCacheOptions) {
    this.#options = options;
    for (const method of [...CHANGED.values()].flat()) {
      this.#cached.set(method, new LruMap(options.maxKept));
    }
  }

  /** Serves a list method, and forwards any other. Never rejects. */
  async list(request: EdgeRequest, closed: Closed): Promise<CallReply> {
    const { forward, keepMs, clock } = this.#options;
    const kept = this.#cached.get(request.method);
    if (kept === undefined || keepMs === 0 || request.params['cursor'] !== undefined) {
      return forward(request, closed);
    }
    const key = listKey(request);
    const last = kept.get(key);
    const ageMs = last === undefined ? Infinity : clock.elapsed() - last.atMs;
    if (last !== undefined && ageMs < keepMs) return withAge(last.result, ageMs);
    const changes = this.#changes.get(request.method);
    const answer = await forward(request, closed);
    if (answer.kind === 'result' && this.#changes.get(request.method) === changes) {
      kept.set(key, { result: answer.result, atMs: clock.elapsed() });
    }
    return answer;
  }

  /** Takes a notification of the server, and drops the lists that changed. */
  changed(notification: string): void {
    for (const method of CHANGED.get(notification) ?? []) {
      this.#changes.set(method, (this.#changes.get(method) ?? 0) + 1);
      this.#cached.get(method)?.clear();
    }
  }
}

/** Reduces `ttlMs` by the age of the cached result. */
function withAge(result: JsonObject, ageMs: number): CallReply {
  const ttlMs = numberOf(result['ttlMs']);
  if (ttlMs === null) return { kind: 'result', result };
  return { kind: 'result', result: { ...result, ttlMs: Math.max(0, Math.floor(ttlMs - ageMs)) } };
}

/** Members of `_meta` that go upstream and do not change what a request asks for. */
const TRACE_CONTEXT = ['traceparent', 'tracestate', 'baggage'];

/** Builds a key that also depends on what the client declares. */
export function clientKey(request: EdgeRequest): string {
  return digest([callerKey(request), profileKey(request.profile), request.clientInfo]);
}

/** Builds the key of a list: equal if the server is asked for the same (caching, "Cache Key"). */
export function listKey(request: EdgeRequest): string {
  const forwardedMeta = without(request.forwardedMeta, TRACE_CONTEXT);
  const params = upstreamParams(request.params, { progressToken: null, forwardedMeta });
  return digest([clientKey(request), request.method, params]);
}

function digest(value: JsonValue): string {
  return sha256(canonicalJson(value));
}
