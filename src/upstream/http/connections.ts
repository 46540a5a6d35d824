/**
 * Connections to one server, in groups. For each request undici's pool searches its connections for a free
 * one. With thousands of parked calls, which keep theirs, that would be most of the work; groups are small.
 */
import { Agent, type Dispatcher } from 'undici';

/** Connections with room for one more request. */
export interface ConnectionGroup {
  readonly dispatcher: Dispatcher;
  /** Called once, when the response is over. */
  release(): void;
}

const MAX_GROUP_SIZE = 64;

export class Connections {
  readonly #options: Agent.Options;
  readonly #groups: SharedGroup[] = [];
  /** Agents that serve one request each. */
  readonly #single = new Set<Agent>();
  #closed = false;

  constructor(options: Agent.Options) {
    this.#options = options;
  }

  /** Takes the first group with room, so that few are in use. After `close`, requests over it fail. */
  take(): ConnectionGroup {
    let group = this.#groups.find(({ busy }) => busy < MAX_GROUP_SIZE);
    if (group === undefined) {
      group = new SharedGroup(this.#newAgent());
      this.#groups.push(group);
    }
    group.busy += 1;
    return group;
  }

  /** Opens a new connection for one request. */
  takeNew(): ConnectionGroup {
    const agent = this.#newAgent();
    this.#single.add(agent);
    const release = () => {
      this.#single.delete(agent);
      void agent.close();
    };
    return { dispatcher: agent, release };
  }

  /** Closes all connections at once. */
  async close(): Promise<void> {
    this.#closed = true;
    const agents = [...this.#groups.map(({ dispatcher }) => dispatcher), ...this.#single];
    await Promise.all(agents.map((agent) => agent.destroy()));
  }

  #newAgent(): Agent {
    const agent = new Agent(this.#options);
    if (this.#closed) void agent.destroy();
    return agent;
  }
}

class SharedGroup implements ConnectionGroup {
  readonly dispatcher: Agent;
  busy = 0;

  constructor(agent: Agent) {
    this.dispatcher = agent;
  }

  release(): void {
    this.busy -= 1;
  }
}
