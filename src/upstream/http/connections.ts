/**
 * Connections to one server, in groups. For each request undici's pool looks through its connections
 * for a free one; with thousands of parked calls, whose streams keep theirs, that becomes most of the
 * work. A group is small, so that looking through it is nothing.
 */
import { Agent, type Dispatcher } from 'undici';

/** A group that has room for one more request. */
export interface Lane {
  readonly dispatcher: Dispatcher;
  /** To be called once, when the request and its answer are over. */
  release(): void;
}

interface Group {
  readonly agent: Agent;
  busy: number;
}

const MAX_BUSY = 64;

export class Connections {
  readonly #options: Agent.Options;
  readonly #groups: Group[];
  /** Those that serve one request each. */
  readonly #single = new Set<Agent>();
  #closed = false;

  constructor(options: Agent.Options) {
    this.#options = options;
    this.#groups = [{ agent: new Agent(options), busy: 0 }];
  }

  /** The first group with room, so that as few as possible are in use; one that refuses after `close`. */
  take(): Lane {
    const group = this.#groups.find(({ busy }) => this.#closed || busy < MAX_BUSY) ?? this.#open();
    group.busy += 1;
    return { dispatcher: group.agent, release: () => (group.busy -= 1) };
  }

  /** A connection that was never used, for one request. */
  takeNew(): Lane {
    const agent = new Agent(this.#options);
    if (this.#closed) void agent.destroy();
    else this.#single.add(agent);
    const release = () => {
      this.#single.delete(agent);
      void agent.close();
    };
    return { dispatcher: agent, release };
  }

  /** Closes every connection at once. */
  async close(): Promise<void> {
    this.#closed = true;
    const agents = [...this.#groups.map(({ agent }) => agent), ...this.#single];
    await Promise.all(agents.map((agent) => agent.destroy()));
  }

  #open(): Group {
    const group = { agent: new Agent(this.#options), busy: 0 };
    this.#groups.push(group);
    return group;
  }
}
