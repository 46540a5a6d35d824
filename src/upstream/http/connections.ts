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

  /** Closes every connection at once. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all(this.#groups.map(({ agent }) => agent.destroy()));
  }

  #open(): Group {
    const group = { agent: new Agent(this.#options), busy: 0 };
    this.#groups.push(group);
    return group;
  }
}
