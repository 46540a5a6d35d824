/**
 * Whether a request was written to a connection. Before that the server cannot have acted on it; after
 * that it may have, whatever became of the connection: no error code tells the one from the other, as a
 * connection that stood may break with `EHOSTUNREACH` or `ECONNREFUSED`, too.
 */
import type { Dispatcher } from 'undici';

export class NotedWrite {
  readonly dispatcher: Dispatcher;
  #written = false;

  /** @param dispatcher where the request will be sent; only one may be sent through each of these */
  constructor(dispatcher: Dispatcher) {
    this.dispatcher = dispatcher.compose((dispatch) => (options, handler) => {
      return dispatch(options, new NotingHandler(handler, () => (this.#written = true)));
    });
  }

  /** True from when the first byte of the request is about to be written. */
  get written(): boolean {
    return this.#written;
  }
}

/** Hands everything on, and tells of the start, which undici calls with the connection ready. */
class NotingHandler implements Dispatcher.DispatchHandler {
  readonly #handler: Dispatcher.DispatchHandler;
  readonly #onStart: () => void;

  constructor(handler: Dispatcher.DispatchHandler, onStart: () => void) {
    this.#handler = handler;
    this.#onStart = onStart;
  }

  onRequestStart(...told: Parameters<NonNullable<Dispatcher.DispatchHandler['onRequestStart']>>) {
    this.#onStart();
    this.#handler.onRequestStart?.(...told);
  }

  onResponseStart(...told: Parameters<NonNullable<Dispatcher.DispatchHandler['onResponseStart']>>) {
    return this.#handler.onResponseStart?.(...told);
  }

  onResponseData(...told: Parameters<NonNullable<Dispatcher.DispatchHandler['onResponseData']>>) {
    return this.#handler.onResponseData?.(...told);
  }

  onResponseEnd(...told: Parameters<NonNullable<Dispatcher.DispatchHandler['onResponseEnd']>>) {
    this.#handler.onResponseEnd?.(...told);
  }

  onResponseError(...told: Parameters<NonNullable<Dispatcher.DispatchHandler['onResponseError']>>) {
    this.#handler.onResponseError?.(...told);
  }
}
