/** Requests that wait for the server, as a greeting or a list can for long. A process that stops replies to them first. */
import { inBackground } from '../lib/background.ts';
import { Members } from '../lib/containers.ts';
import { STOPPING_FOR_REQUEST } from '../model/failures.ts';
import type { CallReply } from '../model/request.ts';

export const STOPPED_REPLY: CallReply = { kind: 'failed', failure: STOPPING_FOR_REQUEST };

export class PendingRequests {
  readonly #pending = new Members<() => void>();
  #isStopped = false;

  /** Returns what the work results in, or `ifStopped` if the process stops before. Rejects as the work does. */
  add<Result>(work: Promise<Result>, ifStopped: Result): Promise<Result> {
    if (this.#isStopped) {
      inBackground(work);
      return Promise.resolve(ifStopped);
    }
    const { promise, resolve, reject } = Promise.withResolvers<Result>();
    const place = this.#pending.add(() => resolve(ifStopped));
    inBackground(work.then(resolve, reject).finally(() => place.leave()));
    return promise;
  }

  endAll(): void {
    this.#isStopped = true;
    for (const stop of this.#pending) stop();
  }
}
