/**
 * A session of a legacy client: one channel to its server (a process, or a translation), and the switchboard between that and the HTTP
 * responses of the client. The gateway sends no request of its own, so that no id can collide.
 */
import { inBackground } from '../../lib/background.ts';
import { ReleasingMap } from '../../lib/containers.ts';
import type { Clock, Timer } from '../../lib/clock.ts';
import type { HeldBytes } from '../../lib/byte-budget.ts';
import type {
  Channel,
  ChannelRefusal,
  ChannelUse,
  DroppedMessage,
  SessionListener,
} from '../../model/channel.ts';
import { asUpstreamFailure, type UpstreamFailure } from '../../model/upstream-failure.ts';
import { answerWithoutRoots, clientMessageWithoutRoots } from '../../protocol/client-roots.ts';
import type { JsonRpcMessage } from '../../protocol/json-rpc.ts';
import type { JsonValue } from '../../protocol/json.ts';
import {
  asLine,
  errorLine,
  keyOf,
  progressKeyOf,
  type ClientMessage,
  type ClientRequest,
  type IdKey,
} from './envelope.ts';
import { EventLog, type LoggedMessage, type MessageKind } from './event-log.ts';
import { EventStream, type Accepts, type StreamResponse } from './event-stream.ts';

export interface SessionSettings {
  readonly clock: Clock;
  /** Whether the server learns the roots of the client. */
  readonly learnsRoots: boolean;
  /** What waits for the client takes. */
  readonly held: HeldBytes;
  /** Called when the client has opened or left a response. */
  readonly onUse: (use: ChannelUse) => void;
  /** Called when the process has ended by itself. */
  readonly onEnd: () => void;
  /** Called with what no client can get. */
  readonly onLost: (what: string) => void;
}

interface OpenRequest extends ClientRequest {
  readonly stream: EventStream;
  /** Runs from its cancellation on. */
  ending: Timer | null;
}

/** A message that no stream is open for. A request has a timer. */
interface Waiting {
  readonly about: About;
  readonly timer: Timer | null;
}

/** The request of the client that a message belongs to; `null` for none, absent if that is not known. */
type About = string | number | null | undefined;

/** How long a request of the server waits for a stream: some ask before the client has opened one. */
const HELD_REQUEST_MS = 30_000;
/** How long the response to a cancelled request stays open: most servers send none. */
const CANCELLED_MS = 5_000;
/** How long responses that no client is connected for hold up the server. Their clients can have given up. */
const LEFT_MS = 30_000;
/** An earlier GET is mostly a connection that is dead. A client that opens two at once has an error. */
const GET_AGAIN_MS = 2_000;
/** How many streams are known, so that they can be resumed. Those that are open are known in any case. */
const MAX_STREAMS = 100;
const RETRY_MS = 1_000;

type Headers = Readonly<Record<string, string>>;
const NO_HEADERS: Headers = {};

export class LegacySession implements SessionListener {
  readonly #settings: SessionSettings;
  readonly #log: EventLog;
  #channel: Channel | null = null;
  /** The revision that the server agreed to; `null` before. */
  #revision: string | null = null;
  /** Without a response, oldest first. */
  readonly #requests = new ReleasingMap<IdKey, OpenRequest>();
  readonly #streams = new Map<number, EventStream>();
  #lastStream = 0;
  #standalone: EventStream | null = null;
  #standaloneOpenedMs = -Infinity;
  /** Messages that wait for a stream that they can go on, oldest first. */
  readonly #waiting = new Map<LoggedMessage, Waiting>();
  /** Runs while nothing more is read of the server. */
  #full: Timer | null = null;
  #use: ChannelUse = 'none';
  #isOver = false;

  constructor(settings: SessionSettings) {
    this.#settings = settings;
    this.#log = new EventLog(settings.held, {
      full: (isFull) => {
        this.#full?.cancel();
        this.#full = null;
        if (!isFull) this.#channel?.resume();
        else if (!this.#isOver) {
          this.#channel?.pause();
          this.#waitForRoom();
        }
      },
      gone: (message) => {
        if (message.stream === null) this.#waiting.delete(message);
        else this.#streams.get(message.stream)?.forget(message);
      },
    });
  }

  get revision(): string | null {
    return this.#revision;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** Requests without a response. */
  get openRequests(): number {
    return this.#requests.size;
  }

  /** Takes the process, to which nothing was sent yet. */
  connect(channel: Channel): void {
    this.#channel = channel;
  }

  /** Sets what `initialize` agreed on. */
  agreed(revision: string): void {
    this.#revision = revision;
  }

  has(id: string | number): boolean {
    return this.#requests.has(keyOf(id));
  }

  /**
   * Sends requests, and has their responses come in this one. More than one are a batch (2025-03-26).
   * @param lines each as the client wrote it, with what was read of it
   * @param headers of the caller that go to the server
   */
  request(
    lines: readonly { readonly line: string; readonly message: ClientMessage }[],
    response: StreamResponse,
    accepts: Accepts,
    headers: Headers,
  ): void {
    const stream = this.#newStream(false);
    const requests = lines.flatMap(({ message }) => (message.type === 'request' ? message : []));
    for (const each of requests) {
      this.#requests.set(keyOf(each.id), { ...each, stream, ending: null });
    }
    stream.begin(response, lines.length > 1 ? 'stream' : accepts);
    this.#changed();
    for (const { line, message } of lines) inBackground(this.#sendRequest(line, message, headers));
  }

  /** Sends a message that has no response. @throws UpstreamFailure if the server has not taken it */
  async send(line: string, message: ClientMessage, headers: Headers): Promise<void> {
    if (message.type === 'other' && message.cancels !== null) this.#cancelled(message.cancels);
    const { learnsRoots } = this.#settings;
    const passed = learnsRoots ? line : clientMessageWithoutRoots(message.method, line);
    if (passed !== null) await this.#channel?.send(asLine(passed), headers);
  }

  /** Takes the headers of a request without a message. */
  renew(headers: Headers): void {
    this.#channel?.renew(headers);
  }

  /**
   * Opens the standalone stream.
   * @returns false if it was opened a moment ago, and is open
   */
  listen(response: StreamResponse): boolean {
    const { clock } = this.#settings;
    const earlier = this.#standalone;
    const isNew = clock.elapsed() - this.#standaloneOpenedMs < GET_AGAIN_MS;
    if (earlier?.isAttached === true && isNew) return false;
    earlier?.close();
    this.#standalone = this.#newStream(true);
    this.#standaloneOpenedMs = clock.elapsed();
    this.#standalone.begin(response, 'stream');
    this.#changed();
    return true;
  }

  /**
   * Resumes a stream after one of its events.
   * @returns `unknown` if it is not known any more; `over` if the client has all of it
   */
  resume(response: StreamResponse, lastEventId: string): 'resumed' | 'unknown' | 'over' {
    const [, number, after] = /^(\d{1,9})\.(\d{1,15})$/.exec(lastEventId) ?? [];
    const stream = number === undefined ? undefined : this.#streams.get(Number(number));
    if (stream === undefined) return 'unknown';
    if (stream.isStandalone && this.#standalone?.isAttached !== true) {
      if (this.#standalone !== stream) this.#standalone?.close();
      this.#standalone = stream;
      stream.reopen();
    }
    // One that was replaced does not replace the other one in its turn: they would do so for ever.
    if (stream.isOver(Number(after))) return 'over';
    if (stream === this.#standalone) this.#standaloneOpenedMs = this.#settings.clock.elapsed();
    stream.resume(response, Number(after));
    this.#changed();
    return 'resumed';
  }

  /** Has the client open its standalone stream elsewhere, or later. */
  closeStandalone(): void {
    this.#standalone?.close(RETRY_MS);
    this.#standalone = null;
  }

  /** What the server says (`ChannelListener`). */
  messages(messages: readonly JsonRpcMessage[], line: string, about?: About): void {
    const lines = messages.length === 1 && !line.trimStart().startsWith('[') ? [line] : split(line);
    for (const [index, message] of messages.entries()) {
      this.#receive(message, asLine(lines[index] ?? ''), about);
    }
  }

  refused(id: string | number, line: string, refusal: ChannelRefusal): void {
    this.#respond(id, line, refusal);
  }

  dropped(message: DroppedMessage, { message: problem }: UpstreamFailure): void {
    if (message.type === 'response')
      return this.#respond(message.id, errorLine(message.id, problem));
    if (message.type === 'request') return this.#refuse(message.id, problem);
    this.#settings.onLost(`${message.method}: ${problem}`);
  }

  ended({ message }: UpstreamFailure): void {
    this.end(`The server of this session has ended: ${message}`);
    this.#settings.onEnd();
  }

  /** Ends it here, and not its process. @param reason for requests without a response */
  end(reason: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    for (const { timer } of this.#waiting.values()) timer?.cancel();
    this.#full?.cancel();
    // Nobody waits for the response to a cancelled request, and some clients complain of it.
    const cancelled = [...this.#requests.values()].filter(({ ending }) => ending !== null);
    for (const { id, ending } of cancelled) {
      ending?.cancel();
      this.#requests.delete(keyOf(id));
    }
    for (const { id } of [...this.#requests.values()]) this.#respond(id, errorLine(id, reason));
    for (const { stream } of cancelled) if (stream.isOpen) stream.close();
    this.#standalone?.close();
    this.#log.close();
  }

  async #sendRequest(line: string, message: ClientMessage, headers: Headers): Promise<void> {
    try {
      await this.send(line, message, headers);
    } catch (error) {
      if (message.type !== 'request') return;
      this.#respond(message.id, errorLine(message.id, asUpstreamFailure(error, false).message));
    }
  }

  #receive(message: JsonRpcMessage, line: string, about: About): void {
    switch (message.type) {
      case 'response':
        return this.#respond(message.id, line);
      case 'notification': {
        const progressKey = progressKeyOf(message);
        const isItsToken = (each: OpenRequest) => each.progressKey === progressKey;
        const request = progressKey === null ? null : this.#find(isItsToken);
        if (request === null) return this.#forward('notification', line, null, about);
        if (request.stream.takesMessages) request.stream.send(this.#log.add('notification', line));
        return;
      }
      case 'request': {
        const answer = this.#settings.learnsRoots
          ? null
          : answerWithoutRoots(message.method, message.id);
        if (answer === null) return this.#forward('request', line, message.id, about);
        return inBackground(this.#channel?.send(answer, NO_HEADERS).catch(() => {}));
      }
      case 'malformed':
        // Its id is one that a number cannot hold, and passes as it was written.
        if (message.id !== undefined) this.#forward('request', line, message.id, about);
    }
  }

  #respond(id: JsonValue, line: string, refusal: ChannelRefusal | null = null): void {
    const request = this.#requests.get(keyOf(id));
    if (request === undefined) return this.#settings.onLost('a response to no open request');
    this.#requests.delete(keyOf(id));
    request.ending?.cancel();
    const { stream } = request;
    const isLast = this.#find((each) => each.stream === stream) === null;
    if (!isLast) stream.send(this.#log.add('response', line));
    else if (!stream.finish(line, id, refusal)) {
      this.#settings.onLost(`the response to ${request.method}, whose client has left`);
    }
    this.#changed();
  }

  /** Over stdio nothing says which request a message is for (docs/adr/0061). */
  #forward(kind: MessageKind, line: string, id: JsonValue, about: About): void {
    const message = this.#log.add(kind, line);
    const stream = this.#streamFor(kind, about);
    if (stream !== null) return stream.send(message);
    if (!this.#log.has(message)) return;
    const giveUp = () => {
      this.#waiting.delete(message);
      this.#log.remove(message);
      this.#refuse(id, 'the client opened no stream on which it could be asked');
    };
    const { clock } = this.#settings;
    const timer = kind === 'request' ? clock.setTimer(HELD_REQUEST_MS, giveUp) : null;
    this.#waiting.set(message, { about, timer });
  }

  #streamFor(kind: MessageKind, about: About): EventStream | null {
    const isRead = ({ stream }: OpenRequest) => stream.isRead;
    const standalone = this.#standalone?.isRead === true ? this.#standalone : null;
    if (about !== undefined && about !== null) {
      // The client still reads it, or can resume it.
      const own = this.#requests.get(keyOf(about))?.stream;
      return own?.takesMessages === true ? own : standalone;
    }
    const newest = () => this.#find(isRead)?.stream ?? null;
    if (kind === 'notification') return standalone ?? newest();
    return this.#find((each) => each.canAsk && isRead(each))?.stream ?? newest() ?? standalone;
  }

  /** Has responses that no client comes for hold up the others for so long only. */
  #waitForRoom(): void {
    this.#full = this.#settings.clock.setTimer(LEFT_MS, () => {
      this.#waitForRoom();
      this.#log.giveUp(({ stream }) => {
        return stream === null || this.#streams.get(stream)?.isAttached !== true;
      });
    });
  }

  /** Finds the newest open request of a kind. */
  #find(matches: (request: OpenRequest) => boolean): OpenRequest | null {
    return [...this.#requests.values()].findLast(matches) ?? null;
  }

  /** Replies to a request of the server that the client cannot get. */
  #refuse(id: JsonValue, problem: string): void {
    this.#settings.onLost(`a request of the server: ${problem}`);
    inBackground(this.#channel?.send(errorLine(id, problem), NO_HEADERS).catch(() => {}));
  }

  #cancelled(key: IdKey): void {
    const request = this.#requests.get(key);
    if (request?.ending !== null) return;
    request.ending = this.#settings.clock.setTimer(CANCELLED_MS, () =>
      this.#respond(request.id, errorLine(request.id, 'The client cancelled the request')),
    );
  }

  #newStream(isStandalone: boolean): EventStream {
    const { clock } = this.#settings;
    const number = (this.#lastStream += 1);
    const stream = new EventStream(number, isStandalone, this.#log, {
      clock,
      isPrimed: () => this.#revision === PRIMING_REVISION,
      onChange: () => this.#changed(),
    });
    this.#streams.set(number, stream);
    for (const [oldest, { isOpen }] of this.#streams) {
      if (this.#streams.size <= MAX_STREAMS) break;
      if (!isOpen) this.#streams.delete(oldest);
    }
    return stream;
  }

  /** A response was opened, left, or read. */
  #changed(): void {
    if (this.#isOver) return;
    for (const [message, { about, timer }] of this.#waiting) {
      const stream = this.#streamFor(message.kind, about);
      if (stream === null) continue;
      timer?.cancel();
      this.#waiting.delete(message);
      stream.send(message);
    }
    const hasRequest = this.#find(({ stream }) => stream.isAttached) !== null;
    const hasStream = this.#standalone?.isAttached === true;
    const use = hasRequest ? 'request' : hasStream ? 'stream' : 'none';
    if (use === this.#use) return;
    this.#use = use;
    this.#settings.onUse(use);
  }
}

/** The one revision whose clients expect an event without data at the start of a stream. */
const PRIMING_REVISION = '2025-11-25';

/** Splits a batch of the server. */
function split(line: string): string[] {
  return (JSON.parse(line) as JsonValue[]).map((each) => JSON.stringify(each));
}
