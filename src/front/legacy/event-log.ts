/**
 * What a session keeps of its event streams: messages that no client has read yet, and those that were sent, for a client that
 * resumes a stream (2025-11-25 transports, "Resumability and Redelivery"). When there is too much of it, what was sent goes first,
 * then notifications. The rest cannot be lost: the server is not read until a client has taken some of it.
 */
import type { HeldBytes } from '../../lib/byte-budget.ts';

export type MessageKind = 'notification' | 'request' | 'response';

export interface LoggedMessage {
  readonly kind: MessageKind;
  /** The JSON as the server wrote it, as one line. */
  readonly line: string;
  /** The number of its stream; `null` while none is open that it can go on. */
  stream: number | null;
  /** Its number on its stream; 0 while it is on none. */
  sequence: number;
  isSent: boolean;
}

/** How much is kept, in bytes: this, or one larger message. */
const MAX_BYTES = 1024 * 1024;

export interface EventLogListener {
  /** Nothing more can be lost; or it can again. */
  full(isFull: boolean): void;
  /** A message is kept no more. */
  gone(message: LoggedMessage): void;
}

export class EventLog {
  readonly #held: HeldBytes;
  readonly #listener: EventLogListener;
  /** Oldest first. */
  readonly #messages = new Set<LoggedMessage>();
  #bytes = 0;
  #isFull = false;

  /** @param held what the messages take */
  constructor(held: HeldBytes, listener: EventLogListener) {
    this.#held = held;
    this.#listener = listener;
  }

  add(kind: MessageKind, line: string): LoggedMessage {
    const message = { kind, line, stream: null, sequence: 0, isSent: false };
    this.#messages.add(message);
    this.#bytes += Buffer.byteLength(line);
    this.#shrink();
    return message;
  }

  /** Notes that a client has got a message, so that it can be lost. */
  sent(message: LoggedMessage): void {
    message.isSent = true;
    if (this.#isFull) this.#shrink();
  }

  remove(message: LoggedMessage): void {
    this.#delete(message);
    this.#shrink();
  }

  /** Gives up responses that no client comes for, oldest first, until it is full no more. */
  giveUp(isLeft: (message: LoggedMessage) => boolean): void {
    for (const each of [...this.#messages]) {
      if (!this.#isFull) return;
      if (each.kind === 'response' && isLeft(each)) this.remove(each);
    }
  }

  /** Whether a message is kept. One can be lost as soon as it comes. */
  has(message: LoggedMessage): boolean {
    return this.#messages.has(message);
  }

  /** The messages of a stream after one of them. Oldest first. */
  of(stream: number, after: number): LoggedMessage[] {
    return [...this.#messages].filter((each) => each.stream === stream && each.sequence > after);
  }

  /** Counts no more what is kept: the session is over. */
  close(): void {
    this.#held.release();
  }

  #shrink(): void {
    while (this.#isTooMuch()) {
      const victim = this.#oldest((each) => each.isSent) ?? this.#oldest(isNotification);
      if (victim === null) break;
      this.#delete(victim);
    }
    const isFull = this.#isTooMuch();
    if (isFull === this.#isFull) return;
    this.#isFull = isFull;
    this.#listener.full(isFull);
  }

  #delete(message: LoggedMessage): void {
    if (!this.#messages.delete(message)) return;
    this.#bytes -= Buffer.byteLength(message.line);
    this.#listener.gone(message);
  }

  #isTooMuch(): boolean {
    const hasRoom = this.#held.hold(this.#bytes) && this.#bytes <= MAX_BYTES;
    return !hasRoom && this.#messages.size > 1;
  }

  #oldest(matches: (message: LoggedMessage) => boolean): LoggedMessage | null {
    for (const each of this.#messages) if (matches(each)) return each;
    return null;
  }
}

function isNotification({ kind }: LoggedMessage): boolean {
  return kind === 'notification';
}
