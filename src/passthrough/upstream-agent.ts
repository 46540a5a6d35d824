/**
 * Connections to the upstream for what is passed on. A request ends when its client goes, also while
 * the upstream has not answered yet, which the forwarding library does not look after.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { Agent, type Dispatcher } from 'undici';
import { NotedWrite } from '../upstream/http/noted-write.ts';

export interface UpstreamAgentOptions {
  readonly connectTimeoutMs: number;
  /** From the end of the request to the head of the answer. */
  readonly headersTimeoutMs: number;
}

type Callback = (error: Error | null, answer?: Dispatcher.ResponseData) => void;

export class UpstreamAgent {
  readonly #agent: Agent;
  /** What requests failed with of which nothing was written. */
  readonly #unsent = new WeakSet<Error>();
  readonly #clientGone = new AsyncLocalStorage<AbortSignal>();

  constructor({ connectTimeoutMs, headersTimeoutMs }: UpstreamAgentOptions) {
    this.#agent = new Agent({
      connect: { timeout: connectTimeoutMs, keepAlive: true },
      headersTimeout: headersTimeoutMs,
      // An event stream may be silent for longer than any timeout.
      bodyTimeout: 0,
      pipelining: 1,
      maxHeaderSize: 64 * 1024,
      allowH2: false,
    });
  }

  /** Requests that `send` makes are aborted with the signal. */
  during(clientGone: AbortSignal, send: () => void): void {
    this.#clientGone.run(clientGone, send);
  }

  /** What the forwarding library calls: undici's `request` with a callback. */
  readonly request = (options: Dispatcher.RequestOptions, callback: Callback): void => {
    const signal = this.#clientGone.getStore() ?? null;
    const write = new NotedWrite(this.#agent);
    write.dispatcher.request({ ...options, signal }, (error, answer) => {
      if (error !== null) {
        if (!write.written) this.#unsent.add(error);
        return callback(error);
      }
      if (answer.statusCode >= 200 && answer.statusCode <= 599) return callback(null, answer);
      answer.body.on('error', () => {}).destroy();
      callback(new Error('the upstream answered with a status that HTTP does not have'));
    });
  };

  /** True for the failure of a request of which the upstream got nothing. */
  isUnsent(error: Error): boolean {
    return this.#unsent.has(error);
  }

  /** Ends every connection and all that runs on it. */
  async close(): Promise<void> {
    await this.#agent.destroy();
  }
}
