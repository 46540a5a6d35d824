/** The processes of a modern server over stdio: one for each caller who sends requests. */
import type { ChannelListener, PermittedChannel } from '../../model/channel.ts';
import type { ModernCaller, ModernServer, ModernServers } from '../../model/modern-server.ts';
import { UpstreamFailure } from '../../model/upstream-failure.ts';
import type { JsonObject } from '../../protocol/json.ts';
import { ModernProcess, type ModernProcessOptions } from './process.ts';

export interface ModernProcessesOptions extends Omit<
  ModernProcessOptions,
  'open' | 'onEmpty' | 'isRetired'
> {
  /** Returns what the server said of itself last, to the gateway; `null` if nothing. */
  readonly discovered: () => JsonObject | null;
  /** Starts a process for a caller, in the limits of the route. @throws UpstreamFailure */
  readonly open: (
    caller: ModernCaller,
    listener: ChannelListener,
    end: () => void,
  ) => Promise<PermittedChannel>;
}

export class ModernProcesses implements ModernServers {
  readonly #options: ModernProcessesOptions;
  /** By principal. */
  readonly #processes = new Map<string, ModernProcess>();
  #isRetired = false;
  #isClosed = false;

  constructor(options: ModernProcessesOptions) {
    this.#options = options;
  }

  /** What the server said of itself last, to the gateway; `null` if that is not known. */
  get discovered(): JsonObject | null {
    return this.#options.discovered();
  }

  /** Whether a request waits for one of them. */
  get isUsed(): boolean {
    return [...this.#processes.values()].some((each) => each.isUsed);
  }

  serverOf(caller: ModernCaller): ModernServer {
    return {
      hasHeaders: false,
      send: (request, listener) => this.#processOf(caller).send(request, listener),
    };
  }

  /** Ends the listeners of all callers. */
  endListening(): void {
    for (const each of [...this.#processes.values()]) each.endListening();
  }

  /** Ends each process as soon as it serves nothing, since no new request comes here. */
  retire(): void {
    this.#isRetired = true;
    for (const each of [...this.#processes.values()]) each.retired();
  }

  /** Ends all, and starts no more. Resolves when those that run have ended. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#processes.values()].map((each) => each.close()));
  }

  #processOf(caller: ModernCaller): ModernProcess {
    const { principalKey } = caller;
    const known = this.#processes.get(principalKey);
    if (known !== undefined) return known;
    const created = new ModernProcess({
      ...this.#options,
      isRetired: () => this.#isRetired,
      open: async (listener, end) => {
        if (this.#isClosed) throw OVER;
        return this.#options.open(caller, listener, end);
      },
      onEmpty: () => {
        if (this.#processes.get(principalKey) === created) this.#processes.delete(principalKey);
      },
    });
    this.#processes.set(principalKey, created);
    return created;
  }
}

const OVER = new UpstreamFailure('session_gone', 'the gateway ends', { mayHaveActed: false });
