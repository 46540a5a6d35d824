/** What the server was answered in one call, for the case that the call is made anew. */
import type { JsonRpcReply } from '../../protocol/json-rpc.ts';
import type { AnsweredQuestion } from '../../seal/pointer.ts';

export class GivenAnswers {
  #all: AnsweredQuestion[] = [];
  /** Of these, what the server has not asked again yet since the call was made anew. */
  #toRepeat: AnsweredQuestion[] = [];

  get all(): readonly AnsweredQuestion[] {
    return this.#all;
  }

  add(...answered: readonly AnsweredQuestion[]): void {
    this.#all.push(...answered);
  }

  /** The call is made anew: what was answered so far is to be answered the same again, each once. */
  repeatAll(): void {
    this.#toRepeat = [...this.#all];
  }

  /** Whether any answer is left to be repeated. */
  get repeats(): boolean {
    return this.#toRepeat.length > 0;
  }

  /** How a question is to be answered again, or `undefined` when it never was, or not as often. */
  repeat(question: string): JsonRpcReply | undefined {
    const at = this.#toRepeat.findIndex((answered) => answered.question === question);
    if (at < 0) return undefined;
    return this.#toRepeat.splice(at, 1)[0]?.reply;
  }
}
