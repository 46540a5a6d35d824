/** A closed loop: so many connections, each with one call at a time, for so long. */
import { Client } from 'undici';
import { markOf, modernCall, type HttpCall } from './messages.ts';

/** A call that was answered, and the body of the answer. */
export interface Answered {
  readonly callNumber: number;
  readonly text: string;
}

/** One connection to one path, and the calls that go over it. */
export class Connection implements Caller {
  readonly #client: Client;
  readonly #origin: string;
  readonly #call: (callNumber: number) => HttpCall;
  readonly #path: string;
  #nextNumber = 1;

  /** @param call what `next` sends */
  constructor(
    origin: string,
    path: string,
    call: (callNumber: number) => HttpCall = (id) => modernCall('echo', id),
  ) {
    this.#origin = origin;
    this.#client = new Client(origin, { bodyTimeout: 60_000, headersTimeout: 30_000 });
    this.#path = path;
    this.#call = call;
  }

  /** The same to the same place, over a socket that was not idle: the server may just close such a one. */
  fresh(): Connection {
    return new Connection(this.#origin, this.#path, this.#call);
  }

  /** Makes the next call and waits for the whole answer. Throws when it is not answered with 200. */
  async next(): Promise<Answered> {
    const callNumber = this.#nextNumber;
    this.#nextNumber += 1;
    return { callNumber, text: await this.send(this.#call(callNumber)) };
  }

  /** Sends a request. @returns the whole body of the response @throws Error if its status is not 200 */
  async send(call: HttpCall): Promise<string> {
    const { status, text } = await this.exchange(call);
    if (status !== 200) throw new Error(`HTTP ${status}: ${text}`);
    return text;
  }

  /** Sends a request. @returns the response, whatever its status @throws Error if there is none */
  async exchange(call: HttpCall): Promise<{ readonly status: number; readonly text: string }> {
    try {
      const request = { method: 'POST', path: this.#path, ...call } as const;
      const answer = await this.#client.request(request);
      return { status: answer.statusCode, text: await answer.body.text() };
    } catch (cause) {
      throw new Error(`no answer to ${call.body.slice(0, 200)}`, { cause });
    }
  }

  async close(): Promise<void> {
    await this.#client.destroy();
  }
}

/** What makes one call after the other: a connection, or several in turns. */
export interface Caller {
  next(): Promise<Answered>;
  /** The same with new connections. */
  fresh(): Caller;
  close(): Promise<void>;
}

export interface LoadResult {
  readonly callsPerSecond: number;
  readonly calls: number;
  readonly latenciesMs: readonly number[];
}

/**
 * Calls `echo` over these connections for so long. Every answer is read to its end and checked; the
 * check is part of the time of no call.
 * @param callsPerConnection after so many calls each caller opens a new connection
 * @throws Error when an answer is not the result of its own call
 */
export async function load(
  connections: readonly Caller[],
  durationMs: number,
  callsPerConnection = Infinity,
): Promise<LoadResult> {
  const latenciesMs: number[] = [];
  const startedAt = performance.now();
  const endAt = startedAt + durationMs;
  const loop = async (given: Caller) => {
    let connection = given;
    const closeOwn = async () => {
      if (connection !== given) await connection.close();
    };
    let calls = 0;
    for (let now = startedAt; now < endAt; now = performance.now()) {
      if (calls > 0 && calls % callsPerConnection === 0) {
        await closeOwn();
        connection = given.fresh();
      }
      const answered = await connection.next();
      calls += 1;
      latenciesMs.push(performance.now() - now);
      checkEcho(answered);
    }
    await closeOwn();
  };
  await Promise.all(connections.map(loop));
  const elapsedMs = performance.now() - startedAt;
  const calls = latenciesMs.length;
  return { calls, callsPerSecond: (calls * 1_000) / elapsedMs, latenciesMs };
}

/**
 * The arguments come back as the text of the result, under the id of the request.
 * @throws Error if they do not
 */
export function checkEcho({ callNumber, text }: Answered): void {
  const isItsOwn = text.includes(`"id":${callNumber},`) || text.includes(`"id":${callNumber}}`);
  if (isItsOwn && text.includes(markOf(callNumber)) && text.includes('"content":[')) return;
  throw new Error(`not the result of call ${callNumber}: ${text}`);
}
