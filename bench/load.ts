/** A closed loop: so many connections, each with one call at a time, for so long. */
import { Client } from 'undici';
import type { HttpCall } from './messages.ts';

/** One connection to one path, and the calls that go over it. */
export class Connection {
  readonly #client: Client;
  readonly #call: (id: number) => HttpCall;
  readonly #path: string;
  #nextId = 1;

  constructor(origin: string, path: string, call: (id: number) => HttpCall) {
    this.#client = new Client(origin, { bodyTimeout: 0, headersTimeout: 60_000 });
    this.#path = path;
    this.#call = call;
  }

  /** Makes the next call. Out: the body of its answer. Throws when it is not answered with 200. */
  async next(): Promise<string> {
    const { headers, body } = this.#call(this.#nextId);
    this.#nextId += 1;
    const answer = await this.#client.request({ method: 'POST', path: this.#path, headers, body });
    const text = await answer.body.text();
    if (answer.statusCode !== 200) throw new Error(`HTTP ${answer.statusCode}: ${text}`);
    return text;
  }

  async close(): Promise<void> {
    await this.#client.destroy();
  }
}

export interface LoadResult {
  readonly callsPerSecond: number;
  readonly calls: number;
  readonly latenciesMs: readonly number[];
}

/** Loads a path over these connections for so long. Throws when an answer does not hold what it must. */
export async function load(
  connections: readonly Connection[],
  mustHold: string,
  durationMs: number,
): Promise<LoadResult> {
  const latenciesMs: number[] = [];
  const startedAt = performance.now();
  const endAt = startedAt + durationMs;
  const loop = async (connection: Connection) => {
    for (let now = performance.now(); now < endAt;) {
      const text = await connection.next();
      if (!text.includes(mustHold)) throw new Error(`not the answer that was expected: ${text}`);
      const then = performance.now();
      latenciesMs.push(then - now);
      now = then;
    }
  };
  await Promise.all(connections.map(loop));
  const elapsedMs = performance.now() - startedAt;
  const calls = latenciesMs.length;
  return { calls, callsPerSecond: (calls * 1_000) / elapsedMs, latenciesMs };
}
