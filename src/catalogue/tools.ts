/**
 * The tools of a server as one caller sees them, for what has to be known of a tool before it is
 * called. They are looked up once in a while, and a server that does not tell has told nothing.
 */
import type { Clock } from '../lib/clock.ts';
import { isJsonObject, objectMember, type JsonObject } from '../protocol/json/json.ts';
import { clientKey } from './cache-keys.ts';
import type { CallAnswer, EdgeRequest } from '../model/request.ts';
import { RecentMap } from '../lib/lru-map.ts';

export interface ToolCatalogueOptions {
  /** Answers `tools/list` as for a client; never rejects. */
  readonly list: (request: EdgeRequest, closed: AbortSignal) => Promise<CallAnswer>;
  /** After this long the server is asked again, in ms. */
  readonly ttlMs: number;
  readonly maxCallers: number;
  readonly clock: Clock;
}

type Tools = ReadonlyMap<string, JsonObject>;

interface Looked {
  readonly tools: Promise<Tools>;
  readonly atMs: number;
}

export class ToolCatalogue {
  readonly #options: ToolCatalogueOptions;
  readonly #looked: RecentMap<string, Looked>;

  constructor(options: ToolCatalogueOptions) {
    this.#options = options;
    this.#looked = new RecentMap(options.maxCallers);
  }

  /** In: a request that names a tool. Out: the tool as the caller is shown it, or `null`. */
  async toolOf(request: EdgeRequest): Promise<JsonObject | null> {
    const { name } = request.params;
    if (request.method !== 'tools/call' || typeof name !== 'string') return null;
    return (await this.#toolsFor(request)).get(name) ?? null;
  }

  /** The tools may be others from here on. */
  forget(): void {
    this.#looked.clear();
  }

  #toolsFor(request: EdgeRequest): Promise<Tools> {
    const { clock, ttlMs } = this.#options;
    const key = clientKey(request);
    const looked = this.#looked.get(key);
    if (looked !== undefined && clock.now() - looked.atMs < ttlMs) return looked.tools;
    const tools = this.#look(request).catch(() => new Map<string, JsonObject>());
    this.#looked.set(key, { tools, atMs: clock.now() });
    void tools.then(({ size }) => {
      // Nothing found is not kept: the next call looks again.
      if (size === 0 && this.#looked.get(key)?.tools === tools) this.#looked.delete(key);
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
 * Whether calling a tool twice does no more than calling it once, as far as its server says (server/tools,
 * "Tool Annotations"); they are hints, and it is the operator who trusts them.
 */
export function isRepeatable(tool: JsonObject | null): boolean {
  const annotations = (tool && objectMember(tool, 'annotations')) ?? {};
  return annotations['readOnlyHint'] === true || annotations['idempotentHint'] === true;
}
