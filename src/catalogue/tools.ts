/** Caches the tools of a server as one caller sees them, for decisions that depend on a tool's definition. */
import type { Clock } from '../lib/clock.ts';
import { isJsonObject, objectMember, type JsonObject } from '../protocol/json/json.ts';
import { clientKey } from './cache-keys.ts';
import type { CallReply, EdgeRequest } from '../model/request.ts';
import { LruMap } from '../lib/lru-map.ts';

export interface ToolCatalogueOptions {
  /** Serves `tools/list` as for a client. Never rejects. */
  readonly list: (request: EdgeRequest, closed: AbortSignal) => Promise<CallReply>;
  /** After this long the server is asked again, in ms. */
  readonly ttlMs: number;
  readonly maxCallers: number;
  readonly clock: Clock;
}

type Tools = ReadonlyMap<string, JsonObject>;

interface Lookup {
  readonly tools: Promise<Tools>;
  readonly atMs: number;
}

export class ToolCatalogue {
  readonly #options: ToolCatalogueOptions;
  readonly #lookups: LruMap<string, Lookup>;

  constructor(options: ToolCatalogueOptions) {
    this.#options = options;
    this.#lookups = new LruMap(options.maxCallers);
  }

  /**
   * Finds the tool that a `tools/call` names.
   * @returns the tool as the caller sees it, or `null`
   */
  async toolOf(request: EdgeRequest): Promise<JsonObject | null> {
    const { name } = request.params;
    if (request.method !== 'tools/call' || typeof name !== 'string') return null;
    return (await this.#toolsFor(request)).get(name) ?? null;
  }

  /** Drops the cache, since the tools may have changed. */
  forget(): void {
    this.#lookups.clear();
  }

  #toolsFor(request: EdgeRequest): Promise<Tools> {
    const { clock, ttlMs } = this.#options;
    const key = clientKey(request);
    const lookup = this.#lookups.get(key);
    if (lookup !== undefined && clock.now() - lookup.atMs < ttlMs) return lookup.tools;
    const tools = this.#look(request).catch(() => new Map<string, JsonObject>());
    this.#lookups.set(key, { tools, atMs: clock.now() });
    void tools.then(({ size }) => {
      // An empty list is not cached: the next call asks again.
      if (size === 0 && this.#lookups.get(key)?.tools === tools) this.#lookups.delete(key);
    });
    return tools;
  }

  async #look(request: EdgeRequest): Promise<Tools> {
    const listing = { ...request, method: 'tools/list', params: {}, progressToken: null };
    const answer = await this.#options.list(listing, new AbortController().signal);
    const tools = answer.kind === 'result' ? answer.result['tools'] : null;
    const named = new Map<string, JsonObject>();
    for (const tool of Array.isArray(tools) ? tools : []) {
      const name = isJsonObject(tool) ? tool['name'] : null;
      if (isJsonObject(tool) && typeof name === 'string') named.set(name, tool);
    }
    return named;
  }
}

/**
 * Returns true if the server annotates the tool as safe to repeat (server/tools, "Tool Annotations").
 * Annotations are hints, and the operator decides whether to trust them.
 */
export function isRepeatable(tool: JsonObject | null): boolean {
  const annotations = (tool && objectMember(tool, 'annotations')) ?? {};
  return annotations['readOnlyHint'] === true || annotations['idempotentHint'] === true;
}
