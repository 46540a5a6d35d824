/** A client that listens to changes of the tools of the server, and listens again whenever its stream ends. */
import http from 'node:http';
import { below } from '../../engine/random.ts';
import { simulation } from '../../engine/simulation.ts';
import { headersOf, messageOf } from '../client.ts';
import type { Replica } from '../replicas.ts';

export interface ListenerOptions {
  readonly seed: number;
  readonly caller: string;
  readonly pick: (why: string) => Replica;
  readonly tell: (what: string) => void;
}

const PAUSE_MS = { least: 300, range: 1_000 } as const;
const METHOD = 'subscriptions/listen';
const PARAMS = { notifications: { toolsListChanged: true } };

export class Listening {
  readonly caller: string;
  readonly #options: ListenerOptions;
  #tries = 0;
  #isOver = false;
  #request: http.ClientRequest | null = null;
  /** When the stream that is open was acknowledged, with changes of the tools; `null` if none is. */
  sinceMs: number | null = null;
  /** The streams that were acknowledged and have ended: with their token, for example. */
  readonly ended: { readonly sinceMs: number; readonly endedMs: number }[] = [];
  /** When a change was heard last. */
  heardMs = -Infinity;

  constructor(options: ListenerOptions) {
    this.caller = options.caller;
    this.#options = options;
    void this.#listen();
  }

  end(): void {
    this.#isOver = true;
    this.#request?.destroy();
  }

  async #listen(): Promise<void> {
    while (!this.#isOver) {
      const nth = (this.#tries += 1);
      const { seed, caller, pick } = this.#options;
      const name = `${caller}:listens:${nth}`;
      await this.#listenTo(pick(name));
      const { sinceMs } = this;
      if (sinceMs !== null) this.ended.push({ sinceMs, endedMs: simulation().nowMs });
      this.sinceMs = null;
      const pauseMs = PAUSE_MS.least + below(`${seed}:${name}`, PAUSE_MS.range);
      await simulation().sleep(pauseMs);
    }
  }

  /** Resolves when the stream ends. */
  #listenTo({ port, name }: Replica): Promise<void> {
    const { caller, tell } = this.#options;
    const request = { caller, method: METHOD, params: PARAMS };
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    this.#request = http.request(
      {
        agent: false,
        host: '127.0.0.1',
        port,
        path: '/mcp',
        method: 'POST',
        headers: headersOf(request),
      },
      (response) => {
        let text = '';
        response.on('data', (bytes: Buffer) => {
          text += String(bytes);
          const lines = text.split('\n');
          text = lines.pop() ?? '';
          for (const line of lines) this.#read(line);
        });
        response.on('close', end);
      },
    );
    this.#request.on('error', () => end());
    this.#request.end(JSON.stringify(messageOf(request)));
    tell(`${caller} listens at ${name}`);
    return ended;
  }

  #read(line: string): void {
    if (/"notifications\/subscriptions\/acknowledged".*"toolsListChanged":true/.test(line)) {
      this.sinceMs = simulation().nowMs;
    }
    if (line.includes('"notifications/tools/list_changed"')) this.heardMs = simulation().nowMs;
  }
}
