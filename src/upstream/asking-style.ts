/**
 * Learns where a legacy server asks: on the event stream of the call that the question belongs to, or on a
 * stream that names no call. It decides how many calls of one caller may run in a session at once.
 */

/**
 * - `unknown`: the server has asked nothing yet
 * - `on-stream`: every question so far came on the stream of its call
 * - `unrelated`: a question came on a stream that names no call
 */
export type AskingStyle = 'unknown' | 'on-stream' | 'unrelated';

export class AskingStyleDetector {
  #style: AskingStyle = 'unknown';

  get style(): AskingStyle {
    return this.#style;
  }

  /** Notes an elicitation or a sampling request. `roots/list` is never of one call, and does not count. */
  asked(where: 'on-stream' | 'unrelated'): void {
    if (this.#style !== 'unrelated') this.#style = where;
  }
}
