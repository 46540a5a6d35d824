/** What calls have to know of tasks: when a call becomes one, and the task that then waits for it. */
import type { ServerTask } from '../protocol/task.ts';

/** When a call becomes a task, if its client knows tasks. */
export interface Promotion {
  /**
   * How long the client waits for an outcome or a question before that, in ms; `null` if the call becomes one only when its
   * server runs it as a legacy task.
   */
  readonly afterMs: number | null;
  /** Whether a question makes it a task. If not, the client is asked as without tasks. */
  readonly onQuestion: boolean;
  /** How long the task can live, in ms. */
  readonly ttlMs: number;
}

/** The task that waits for a call in place of a client. */
export interface WaitingTask {
  /** How long it lives yet, in ms. */
  readonly leftMs: number;
  /** Whether no other process can go on with it. */
  readonly endsWithProcess: boolean;
  /** Whether it waits only to have the server cancel the call, which is not left to the server then. */
  readonly isStopping?: true;
  /** Called when the server asks or withdraws something, or ends the call, while the task does not wait for it. */
  moved(): void;
  /** Called with what the server says of its own task. */
  learned(task: ServerTask): void;
}
