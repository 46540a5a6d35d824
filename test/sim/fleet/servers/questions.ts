/** The questions of a session of a simulated server, and what becomes of them. */
import { simulation } from '../../engine/simulation.ts';
import type { Deed } from './journal.ts';
import type { Message } from './sessions.ts';

/** As servers of the SDK do: a question between two readers of a stream can be lost. */
export const ANSWER_WITHIN_MS = 62_000;
/** An answer that is on its way when its question is withdrawn arrives within this time (cancellation, "Timing Considerations"). */
const CROSSES_WITHIN_MS = 1_000;
/** The message of a question says whose it is. */
const QUESTION = /^call=(\w+);question=([\w-]+);$/;

/** The parameters of a question of a call. */
export function questionOf(call: string, question: string) {
  const properties = { name: { type: 'string' as const } };
  const requestedSchema = { type: 'object' as const, properties };
  return { message: `call=${call};question=${question};`, requestedSchema };
}

/** The parameters of the same question as a form of OpenAI's extension, which no plain one could be. */
export function formOf(call: string, question: string) {
  const input = { type: 'resource', options: [{ uri: `cad://${question}` }] };
  const properties = { size: { minimum: 0.5 }, name: { pattern: '^sim', 'x-openai-input': input } };
  const requestedSchema = { required: ['size'], properties, additionalProperties: false };
  return { mode: 'form', ...questionOf(call, question), requestedSchema };
}

/** What a client answers to such a form: not all that is required, and more than is asked. */
export function formAnswerTo(message: string) {
  return { odd: true, name: answerTo(message) };
}

/** @returns the call and the name of a question; `null` if a message is none */
export function readQuestion(message: string): { call: string; question: string } | null {
  const [, call, question] = QUESTION.exec(message) ?? [];
  return call === undefined || question === undefined ? null : { call, question };
}

/** What a client answers to a question with this message. */
export function answerTo(message: string): string {
  return readQuestion(message)?.question ?? '';
}

interface Question {
  readonly call: string;
  /** What its client answers. */
  readonly name: string;
  /** The JSON text of the answer, if each member of it counts. */
  readonly content?: string;
  /** Called with what the client gave, if that is not from the answer itself. */
  readonly settle?: (answer: string) => void;
}

type Note = (what: Deed, call: string, by: string, more: { readonly question: string }) => void;

/** By the ids that they have on the wire. */
export class Questions {
  readonly #note: Note;
  readonly #open = new Map<string, Question & { readonly sinceMs: number }>();
  /** The questions that are closed, and until when an answer can have crossed the withdrawal. */
  readonly #closed = new Map<string, Question & { readonly crossesUntilMs: number }>();

  constructor(note: Note) {
    this.#note = note;
  }

  /** The calls that wait for an answer. */
  get asking(): string[] {
    return [...this.#open.values()].map(({ call }) => call);
  }

  /** Since when the question is open that has waited longest for an answer, and whose it is; `null` if none is. */
  get longest(): { readonly call: string; readonly sinceMs: number } | null {
    return (
      [...this.#open.values()].toSorted((one, other) => one.sinceMs - other.sinceMs)[0] ?? null
    );
  }

  open(id: string, question: Question): void {
    this.#open.set(id, { ...question, sinceMs: simulation().nowMs });
  }

  isOpen(id: string): boolean {
    return this.#open.has(id);
  }

  /** The server takes a question back. @param by who reads that */
  withdraw(id: string, by: string): void {
    const question = this.#open.get(id);
    if (question === undefined) return;
    this.#note('withdrawn', question.call, by, { question: question.name });
    this.#close(id, question, simulation().nowMs + CROSSES_WITHIN_MS);
  }

  /** Nobody has answered in time. @param isTold whether the server says so */
  expire(id: string, by: string, isTold = false): void {
    const question = this.#open.get(id);
    if (question === undefined) return;
    this.#note('not answered', question.call, by, { question: question.name });
    this.#close(id, question, isTold ? simulation().nowMs + CROSSES_WITHIN_MS : 0);
    question.settle?.('not answered');
  }

  /** Takes the reply to a question. @param by the process that sent it */
  take(id: string, { result }: Message, by: string): void {
    const question = this.#open.get(id);
    if (question === undefined) return this.#takeAgain(id, by);
    const { call, name, content, settle } = question;
    const answer = result?.content?.name ?? 'declined';
    const isAccepted = result?.action === 'accept';
    const isWhole = content === undefined || JSON.stringify(result?.content) === content;
    this.#note('answered', call, by, { question: name });
    if (!isAccepted) this.#note('declined', call, by, { question: name });
    else if (answer !== name || !isWhole)
      this.#note('answered wrongly', call, by, { question: name });
    this.#close(id, question);
    settle?.(isAccepted ? answer : 'declined');
  }

  forget(): void {
    this.#open.clear();
  }

  #takeAgain(id: string, by: string): void {
    const closed = this.#closed.get(id);
    if (closed === undefined) return;
    if (simulation().nowMs <= closed.crossesUntilMs) return this.#close(id, closed);
    this.#note('answered again', closed.call, by, { question: closed.name });
  }

  #close(id: string, question: Question, crossesUntilMs = 0): void {
    this.#open.delete(id);
    this.#closed.set(id, { ...question, crossesUntilMs });
  }
}
