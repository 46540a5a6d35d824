/** The tools of a server as one caller sees them, and which of them demand a task: both are cached. */
import { inBackground } from '../lib/background.ts';
import type { Clock, Closed } from '../lib/clock.ts';
import { isJsonObject, objectMember, type JsonObject, type JsonValue } from '../protocol/json.ts';
import { clientKey } from './list-cache.ts';
import type { CallReply, EdgeRequest } from '../model/request.ts';
import { LruMap } from '../lib/containers.ts';
import { isTaskTool } from '../protocol/task.ts';

export interface ToolCacheOptions {
  /** Serves `tools/list`. Never rejects. */
  readonly list: (request: EdgeRequest, closed: Closed) => Promise<CallReply>;
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
  readonly #options: ToolCacheOptions;
  readonly #lookups: LruMap<string, Lookup>;

  /** @param options whose `list` serves as for a client */
  constructor(options: ToolCacheOptions) {
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
    if (lookup !== undefined && clock.elapsed() - lookup.atMs < ttlMs) return lookup.tools;
    const tools = this.#look(request).catch(() => new Map<string, JsonObject>());
    this.#lookups.set(key, { tools, atMs: clock.elapsed() });
    inBackground(
      tools.then(({ size }) => {
        // An empty list is not cached: the next call asks again.
        if (size === 0 && this.#lookups.get(key)?.tools === tools) this.#lookups.delete(key);
      }),
    );
    return tools;
  }

  async #look(request: EdgeRequest): Promise<Tools> {
    const answer = await listTools(this.#options, request);
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

/** Lists the tools for a caller, whose request is another one. */
function listTools({ list }: ToolCacheOptions, request: EdgeRequest): Promise<CallReply> {
  const listing = { ...request, method: 'tools/list', params: {}, progressToken: null };
  return list(listing, new AbortController().signal);
}

interface KnownTools {
  /** The names of tools that demand a task. */
  readonly demanding: ReadonlySet<string>;
  readonly atMs: number;
}

/**
 * Remembers which tools of a server can be called only as legacy tasks, as one caller sees them. Lists that clients get
 * do not say it: `execution` is not a member of a modern tool.
 */
export class TaskTools {
  readonly #options: ToolCacheOptions;
  readonly #known: LruMap<string, KnownTools>;
  /** Lists that are on their way. */
  readonly #asking = new Map<string, Promise<unknown>>();

  /** @param options whose `list` asks the server, and has `learn` called */
  constructor(options: ToolCacheOptions) {
    this.#options = options;
    this.#known = new LruMap(options.maxCallers);
  }

  /** Takes a whole list of tools, as the server sent it to this caller. */
  learn(request: EdgeRequest, tools: readonly JsonValue[]): void {
    const names = tools.map((tool) =>
      isJsonObject(tool) && isTaskTool(tool) ? tool['name'] : null,
    );
    const demanding = new Set(names.filter((name) => typeof name === 'string'));
    this.#known.set(clientKey(request), { demanding, atMs: this.#options.clock.elapsed() });
  }

  /**
   * Tells whether the tool that a `tools/call` names can be called only as a task.
   * @returns false if the server does not list its tools
   */
  async demandsTask(request: EdgeRequest): Promise<boolean> {
    const { name } = request.params;
    if (typeof name !== 'string') return false;
    const key = clientKey(request);
    if (!this.#isKnown(key)) await this.#ask(key, request);
    return this.#known.get(key)?.demanding.has(name) ?? false;
  }

  /** Forgets all tools, since they may have changed. */
  forget(): void {
    this.#known.clear();
  }

  #isKnown(key: string): boolean {
    const { clock, ttlMs } = this.#options;
    const known = this.#known.get(key);
    return known !== undefined && clock.elapsed() - known.atMs < ttlMs;
  }

  /** Calls that come together wait for one list. */
  #ask(key: string, request: EdgeRequest): Promise<unknown> {
    const running = this.#asking.get(key);
    if (running !== undefined) return running;
    const asking = listTools(this.#options, request).finally(() => this.#asking.delete(key));
    this.#asking.set(key, asking);
    return asking;
  }
}
