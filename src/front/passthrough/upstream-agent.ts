/**
 * Connections to the upstream for requests that are passed through. A request is aborted when its client leaves, even
 * before the upstream responds, which the forwarding library does not do.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { Readable } from 'node:stream';
import { Agent, type Dispatcher } from 'undici';
import type { PassThroughOptions } from './options.ts';

type Options = Pick<PassThroughOptions, 'headersTimeoutMs' | 'onOutcome'>;
/** As for requests that are translated, in ms. */
const CONNECT_TIMEOUT_MS = 5_000;

type Callback = (error: Error | null, response?: Dispatcher.ResponseData) => void;

export class UpstreamAgent {
  readonly #agent: Agent;
  /** The errors of requests of which nothing was sent. */
  readonly #unsent = new WeakSet<Error>();
  readonly #clientLeft = new AsyncLocalStorage<AbortSignal>();
  readonly #onOutcome: Options['onOutcome'];

  constructor({ headersTimeoutMs, onOutcome }: Options) {
    this.#onOutcome = onOutcome;
    this.#agent = new Agent({
      connect: { timeout: CONNECT_TIMEOUT_MS, keepAlive: true },
      headersTimeout: headersTimeoutMs,
      // An event stream can be idle for longer than any timeout.
      bodyTimeout: 0,
      pipelining: 1,
      maxHeaderSize: 64 * 1024,
      allowH2: false,
    });
  }

  /** Aborts the requests that `send` makes with the signal. */
  during(clientLeft: AbortSignal, send: () => void): void {
    this.#clientLeft.run(clientLeft, send);
  }

  /** undici's `request` with a callback, as the forwarding library calls it. */
  readonly request = (options: Dispatcher.RequestOptions, callback: Callback): void => {
    const signal = this.#clientLeft.getStore() ?? null;
    // Before anything was written, the server cannot have acted. No error code says so: a connection that stood may break
    // with `EHOSTUNREACH` or `ECONNREFUSED`, too.
    let isWritten = false;
    const dispatcher = this.#agent.compose((dispatch) => (dispatched, handler) => {
      const start = handler.onRequestStart?.bind(handler);
      // undici calls it when the connection is ready.
      handler.onRequestStart = (...told) => {
        isWritten = true;
        start?.(...told);
      };
      return dispatch(dispatched, handler);
    });
    dispatcher.request({ ...options, signal }, (error, response) => {
      if (error !== null) {
        if (!isWritten) this.#unsent.add(error);
        // A body that is streamed can also break on the side of the client.
        const isOurs = signal?.aborted !== true && !(options.body instanceof Readable);
        if (isOurs) this.#onOutcome(error);
        return callback(error);
      }
      this.#onOutcome(response.statusCode);
      if (response.statusCode >= 200 && response.statusCode <= 599) return callback(null, response);
      response.body.on('error', () => {}).destroy();
      callback(new Error('the upstream responded with an invalid HTTP status'));
    });
  };

  /** Tells whether nothing was sent of the request that failed with this error. */
  isUnsent(error: Error): boolean {
    return this.#unsent.has(error);
  }

  /** Closes all connections, with the requests on them. */
  async close(): Promise<void> {
    await this.#agent.destroy();
  }
}
