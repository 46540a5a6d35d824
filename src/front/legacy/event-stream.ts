/**
 * One event stream of a session: the response to a POST, or the standalone one that a GET opens. A client whose connection breaks
 * resumes it with another GET. The response to a POST stays one JSON object if its only message comes soon.
 */
import type { Clock, Timer } from '../../lib/clock.ts';
import { COMMIT_AFTER_MS, KEEP_ALIVE_MS, STREAM_HEADERS } from '../../edge/response-writer.ts';
import type { ChannelRefusal } from '../../model/channel.ts';
import type { JsonValue } from '../../protocol/json.ts';
import { errorLine } from './envelope.ts';
import type { EventLog, LoggedMessage } from './event-log.ts';

/** The HTTP response that a stream goes to. */
export interface StreamResponse {
  /** Whether the client is there. */
  readonly isOpen: boolean;
  head(status: number, headers: Readonly<Record<string, string>>): void;
  /** @returns false if the client is behind */
  write(text: string): boolean;
  end(text?: string): void;
  /** Calls back when a client that was behind has caught up, and when the response is over. */
  watch(listener: { caughtUp(): void; closed(): void }): void;
}

/** What a client takes in response to a POST. */
export type Accepts = 'json' | 'stream' | 'both';

export interface StreamSettings {
  readonly clock: Clock;
  /** Whether an event without data opens each stream, from whose id it can be resumed (2025-11-25). */
  readonly isPrimed: () => boolean;
  /** Called when a client has opened or left the stream. */
  readonly onChange: () => void;
}

const SUCCESS: ChannelRefusal = { httpStatus: 200, headers: {} };

export class EventStream {
  /** Part of the ids of its events. */
  readonly number: number;
  readonly isStandalone: boolean;
  readonly #log: EventLog;
  readonly #settings: StreamSettings;
  #response: StreamResponse | null = null;
  #accepts: Accepts = 'stream';
  #isStreaming = false;
  #isBehind = false;
  #isOver = false;
  #sequence = 0;
  /** Oldest first. */
  #unsent = new Set<LoggedMessage>();
  /** The last message, once it is there: its number, and the request that it responds to. */
  #last: { readonly sequence: number; readonly id: JsonValue } | null = null;
  #timer: Timer | null = null;

  constructor(number: number, isStandalone: boolean, log: EventLog, settings: StreamSettings) {
    this.number = number;
    this.isStandalone = isStandalone;
    this.#log = log;
    this.#settings = settings;
  }

  /** Whether messages can still come on it. */
  get isOpen(): boolean {
    return !this.#isOver;
  }

  /** Whether a client is connected. */
  get isAttached(): boolean {
    return this.#response !== null;
  }

  /** Whether a message can go on it before the last one. */
  get takesMessages(): boolean {
    return !this.#isOver && (this.#isStreaming || (this.isAttached && this.#accepts !== 'json'));
  }

  /** Whether a client reads it now, so that messages go on it that it is not for. */
  get isRead(): boolean {
    return this.takesMessages && this.isAttached && !this.#isBehind;
  }

  /** Begins it with the response to a request. */
  begin(response: StreamResponse, accepts: Accepts): void {
    this.#accepts = accepts;
    this.#attach(response);
    if (accepts === 'stream') this.#commit();
    else if (accepts === 'both') this.#wait(COMMIT_AFTER_MS, () => this.#commit());
  }

  /** Goes on with it in another response. @param after the number of the last event that the client has */
  resume(response: StreamResponse, after: number): void {
    this.detach();
    this.#accepts = 'stream';
    this.#attach(response);
    this.#unsent = new Set(this.#log.of(this.number, after));
    const last = this.#last;
    if (
      last !== null &&
      after < last.sequence &&
      this.#log.of(this.number, last.sequence - 1).length === 0
    ) {
      const text = 'The response was sent before, and is no longer kept';
      const lost = this.#log.add('response', errorLine(last.id, text));
      this.#number(lost, last.sequence);
    }
    this.#commit();
  }

  /** Has messages come on it again, since its client uses it after all. */
  reopen(): void {
    this.#isOver = false;
  }

  /** Whether nothing comes on it for a client that has an event. @param after the number of the event */
  isOver(after: number): boolean {
    if (!this.#isOver || after < (this.#last?.sequence ?? 0)) return false;
    return this.#log.of(this.number, after).length === 0;
  }

  /** Forgets a message that is kept no more. */
  forget(message: LoggedMessage): void {
    this.#unsent.delete(message);
  }

  /** Takes a message that is not the last one. */
  send(message: LoggedMessage): void {
    this.#number(message, (this.#sequence += 1));
    if (!this.#isStreaming && this.isAttached) this.#commit();
    else this.#flush();
  }

  /**
   * Takes the last message: the response to the request with this id.
   * @param refusal how it is told if no byte of the response was sent; `null` for a success
   * @returns false if no client can have it any more
   */
  finish(line: string, id: JsonValue, refusal: ChannelRefusal | null): boolean {
    this.#isOver = true;
    this.#stopTimer();
    if (this.#isStreaming) {
      this.#last = { sequence: this.#sequence + 1, id };
      this.send(this.#log.add('response', line));
      return true;
    }
    const response = this.#response;
    this.#leave();
    if (response === null) return false;
    const { httpStatus, headers } = refusal ?? SUCCESS;
    response.head(httpStatus, { ...headers, 'content-type': 'application/json' });
    response.end(line);
    return true;
  }

  /** Ends it without a message. @param retryMs when the client can come back */
  close(retryMs: number | null = null): void {
    this.#isOver = true;
    this.#unsent.clear();
    const response = this.#response;
    if (!this.#isStreaming) this.#commit();
    this.#leave();
    if (retryMs !== null) response?.write(`retry: ${retryMs}\n\n`);
    response?.end();
  }

  /** Ends the response, and not the stream: its client has another one. */
  detach(): void {
    const response = this.#response;
    this.#leave();
    response?.end();
  }

  #number(message: LoggedMessage, sequence: number): void {
    message.stream = this.number;
    message.sequence = sequence;
    if (this.#log.has(message)) this.#unsent.add(message);
  }

  #attach(response: StreamResponse): void {
    this.#response = response;
    this.#isBehind = false;
    response.watch({
      caughtUp: () => {
        if (this.#response !== response) return;
        this.#isBehind = false;
        this.#flush();
        this.#settings.onChange();
      },
      closed: () => {
        if (this.#response !== response) return;
        this.#leave();
        this.#settings.onChange();
      },
    });
    if (!response.isOpen) this.#leave();
  }

  #leave(): void {
    this.#response = null;
    this.#isBehind = false;
    this.#stopTimer();
  }

  #commit(): void {
    const response = this.#response;
    if (response === null) return;
    const isFirst = !this.#isStreaming;
    this.#isStreaming = true;
    response.head(200, STREAM_HEADERS);
    if (isFirst && this.#settings.isPrimed()) response.write(`id: ${this.number}.0\ndata: \n\n`);
    this.#keepAlive();
    this.#flush();
  }

  #flush(): void {
    const response = this.#response;
    if (response === null || !this.#isStreaming) return;
    for (const message of this.#unsent) {
      if (this.#isBehind) break;
      this.#unsent.delete(message);
      this.#isBehind = !response.write(
        `event: message\nid: ${this.number}.${message.sequence}\ndata: ${message.line}\n\n`,
      );
      this.#log.sent(message);
    }
    if (!this.#isOver || this.#unsent.size > 0) return;
    this.#leave();
    response.end();
  }

  #keepAlive(): void {
    this.#wait(KEEP_ALIVE_MS, () => {
      if (!this.#isBehind) this.#response?.write(': keep-alive\n\n');
      this.#keepAlive();
    });
  }

  #wait(afterMs: number, then: () => void): void {
    this.#stopTimer();
    this.#timer = this.#settings.clock.setTimer(afterMs, then);
  }

  #stopTimer(): void {
    this.#timer?.cancel();
    this.#timer = null;
  }
}
