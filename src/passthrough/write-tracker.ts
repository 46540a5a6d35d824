/**
 * Finds out whether a request was written to a connection. Before that the server cannot have acted on it.
 * No error code says so: a connection that stood may break with `EHOSTUNREACH` or `ECONNREFUSED`, too.
 */
import type { Dispatcher } from 'undici';

export class WriteTracker {
  readonly dispatcher: Dispatcher;
  #written = false;

  /** @param dispatcher where the request will be sent; only one may be sent through each tracker */
  constructor(dispatcher: Dispatcher) {
    this.dispatcher = dispatcher.compose((dispatch) => (options, handler) => {
      return dispatch(options, new StartHandler(handler, () => (this.#written = true)));
    });
  }

  /** True once the first byte of the request is about to be written. */
  get written(): boolean {
    return this.#written;
  }
}

/** Passes everything on. undici calls `onRequestStart` when the connection is ready. */
class StartHandler implements Dispatcher.DispatchHandler {
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
    return this.#handler.onResponseEnd?.(...told);
  }

  onResponseError(...told: Parameters<NonNullable<Dispatcher.DispatchHandler['onResponseError']>>) {
    this.#handler.onResponseError?.(...told);
  }
}
