/**
 * Remembers which tools of a server can be called only as legacy tasks, as one caller sees them. Lists that clients get
 * do not say it: `execution` is no member of a modern tool.
 */
import type { Clock } from '../lib/clock.ts';
import { LruMap } from '../lib/lru-map.ts';
import type { CallReply, EdgeRequest } from '../model/request.ts';
import { isJsonObject, type JsonValue } from '../protocol/json/json.ts';
import { isTaskTool } from '../protocol/task.ts';
import { clientKey } from './cache-keys.ts';

export interface TaskToolsOptions {
  /** Asks the server for its tools, which `learn` is told of. Never rejects. */
  readonly list: (request: EdgeRequest, closed: AbortSignal) => Promise<CallReply>;
  /** After this long the server is asked again, in ms. */
  readonly ttlMs: number;
  readonly maxCallers: number;
  readonly clock: Clock;
}

interface KnownTools {
  /** The names of tools that demand a task. */
  readonly demanding: ReadonlySet<string>;
  readonly atMs: number;
}

export class TaskTools {
  readonly #options: TaskToolsOptions;
  readonly #known: LruMap<string, KnownTools>;
  /** Lists that are on their way. */
  readonly #asking = new Map<string, Promise<unknown>>();

  constructor(options: TaskToolsOptions) {
    this.#options = options;
    this.#known = new LruMap(options.maxCallers);
  }

  /** Takes a whole list of tools, as the server sent it to this caller. */
  learn(request: EdgeRequest, tools: readonly JsonValue[]): void {
    const names = tools.map((tool) =>
      isJsonObject(tool) && isTaskTool(tool) ? tool['name'] : null,
    );
    const demanding = new Set(names.filter((name) => typeof name === 'string'));
    this.#known.set(clientKey(request), { demanding, atMs: this.#options.clock.now() });
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
    return known !== undefined && clock.now() - known.atMs < ttlMs;
  }

  /** Calls that come together wait for one list. */
  #ask(key: string, request: EdgeRequest): Promise<unknown> {
    const running = this.#asking.get(key);
    if (running !== undefined) return running;
    const listing = { ...request, method: 'tools/list', params: {}, progressToken: null };
    const asking = this.#options
      .list(listing, new AbortController().signal)
      .finally(() => this.#asking.delete(key));
    this.#asking.set(key, asking);
    return asking;
  }
}
