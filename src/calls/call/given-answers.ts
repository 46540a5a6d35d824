/** The answers that the server got in one call, for a replay. */
import type { JsonRpcReply } from '../../protocol/json-rpc.ts';
import type { AnsweredQuestion } from '../../seal/pointer.ts';

export class GivenAnswers {
  #all: AnsweredQuestion[] = [];
  /** Of these, the answers whose questions the replayed call has not asked yet. */
  #toRepeat: AnsweredQuestion[] = [];

  get all(): readonly AnsweredQuestion[] {
    return this.#all;
  }

  add(...answered: readonly AnsweredQuestion[]): void {
    this.#all.push(...answered);
  }

  /** Begins a replay: each answer so far is to be given once more. */
  repeatAll(): void {
    this.#toRepeat = [...this.#all];
  }

  /**
   * Takes the answer to a question that is asked again.
   * @param question see `questionDigest`
   * @returns `undefined` if it was never answered, or not as often
   */
  repeat(question: string): JsonRpcReply | undefined {
    const at = this.#toRepeat.findIndex((answered) => answered.question === question);
    if (at < 0) return undefined;
    return this.#toRepeat.splice(at, 1)[0]?.reply;
  }
}
