/** The receiving half of a session: gives each message of the server to the call or request that it is for. */
import { inBackground } from '../../lib/background.ts';
import type { RouteLog } from '../../ops/route-log.ts';
import {
  serverRequestId,
  upstreamRequestId,
  type ServerRequestId,
  type UpstreamRequestId,
} from '../../protocol/ids.ts';
import type { JsonRpcMessage, JsonRpcReply } from '../../protocol/json-rpc.ts';
import { relatedTaskOf } from '../../protocol/task.ts';
import { questionKey } from '../discovery/broadcast-detector.ts';
import { isCutTo32Bits } from '../quirks/cut-ids.ts';
import { asUpstreamFailure, beginningOf, UpstreamFailure } from '../../model/upstream-failure.ts';
import { TRAITS } from '../transport/traits.ts';
import type { DroppedMessage } from '../../model/channel.ts';
import type { MessageSource, TransportListener } from '../transport/transport.ts';
import { isQuestion, LIST_CHANGES, routeOf, type RoutedMessage } from './questions/routing.ts';
import type { SessionCall } from './session-call.ts';
import { isSessionError } from '../http/error-response.ts';
import { sessionUnknown, type SessionState } from './session-state.ts';
import type { RequestOutcome } from './requests.ts';
import type { ResumedStream } from './resumed-stream.ts';

export interface IncomingOptions {
  /**
   * Called with each question of a call that may have been broadcast. Later messages wait for the promise.
   * Returns `null` if there is nothing to find out.
   */
  readonly checkQuestion?: (question: string) => Promise<void> | null;
  /** Called with the method of each change of a list or a resource that happened, or may have been missed. */
  readonly onChange?: ((method: string) => void) | undefined;
  /** Absent where nobody reads it, as in the probe. */
  readonly log?: RouteLog | undefined;
}

/** In the place of a reply that was too large there is the failure. */
type ReceivedMessage = JsonRpcMessage<RequestOutcome>;

interface RootsReply {
  readonly id: ServerRequestId;
  readonly reply: JsonRpcReply;
}

const STANDALONE: MessageSource = { stream: 'standalone' };

export class IncomingMessages implements TransportListener {
  readonly #session: SessionState;
  readonly #options: IncomingOptions;
  #held: HeldMessages | null = null;

  constructor(session: SessionState, options: IncomingOptions) {
    this.#session = session;
    this.#options = options;
  }

  message(received: ReceivedMessage, source: MessageSource): void {
    const session = this.#session;
    const message = this.#withOwnId(received);
    if (!this.#mayBeReplayed(source)) {
      session.detector.received(message, session.identity, session.transport.kind);
    }
    const check = this.#checkForBroadcast(message);
    if (this.#held === null && check === null) return this.#deliver(message, source);
    this.#hold(message, source, check);
  }

  dropped(message: DroppedMessage, failure: UpstreamFailure): void {
    if (message.type === 'response')
      return this.message({ ...message, reply: failure }, STANDALONE);
    const { type: kind, method } = message;
    const problem = failure.message;
    this.#options.log?.event('upstream.dropped', { kind, method: beginningOf(method), problem });
    if (message.type === 'notification') return;
    // The server is told, so that it does not wait.
    const told = `the message is too large for the gateway (${failure.details.exceeds})`;
    this.message({ type: 'malformed', problem: told, id: message.id }, STANDALONE);
  }

  sent(id: UpstreamRequestId): void {
    this.#session.calls.get(id)?.wasSent(this.#options.log);
  }

  accepted(id: UpstreamRequestId): void {
    this.#session.calls.get(id)?.accept();
  }

  notTaken(id: UpstreamRequestId, failure: UpstreamFailure): void {
    this.#session.refuseCall(id, failure);
  }

  interrupted(id: UpstreamRequestId): void {
    this.#session.calls.get(id)?.listener.interrupted();
  }

  resumed(id: UpstreamRequestId): void {
    const call = this.#session.calls.get(id);
    call?.resumeStream();
    call?.listener.resumed();
  }

  lost(id: UpstreamRequestId, failure: UpstreamFailure): void {
    this.#session.loseCall(id, failure);
  }

  backlog(id: UpstreamRequestId): Promise<void> | null {
    return this.#session.calls.get(id)?.listener.backlog() ?? null;
  }

  closed(failure: UpstreamFailure): void {
    // Replies that came before the end count. Nothing else can be of use any more.
    const held = this.#held;
    this.#held = null;
    for (let next = held?.take(); next !== undefined; next = held?.take()) {
      if (next.message.type === 'response') this.#deliver(next.message, next.source);
    }
    this.#session.fail(failure);
  }

  standaloneOpened(): void {
    if (this.#session.standalone === 'lost') this.#changesMissed();
    this.#session.standalone = 'open';
    this.#session.questions.streamOpened();
  }

  standaloneResumed(gapless: boolean): void {
    this.#session.questions.streamOpened();
    if (gapless) return;
    this.#changesMissed();
    this.#session.changeListener?.missed();
  }

  standaloneLost(failure: UpstreamFailure): void {
    this.#session.standalone = 'lost';
    this.#session.loseChanges(failure);
    const { code, message: problem } = failure;
    this.#options.log?.once('session.stream_lost', { code, problem });
  }

  /** Another process can have the session: then the stream is that one's, and ended here because it opened it. */
  beforeReopening(): Promise<unknown> | null {
    return this.#session.questions.confirm();
  }

  confirmSession(): Promise<boolean> {
    return this.#session.confirm();
  }

  standaloneRefused(failure: UpstreamFailure): void {
    this.#session.loseChanges(failure);
  }

  /**
   * Restores the id of `initialize` in a reply of a server that cut it to 32 bits; later ids are strings.
   * No other request was sent yet, so the reply can only be that one.
   */
  #withOwnId(message: ReceivedMessage): ReceivedMessage {
    const session = this.#session;
    const id = session.initializeId;
    if (id === null || message.type !== 'response') return message;
    if (message.id === id) session.initializeId = null;
    if (!isCutTo32Bits(id, message.id)) return message;
    session.initializeId = null;
    session.detector.usesTextIds = true;
    return { ...message, id };
  }

  /** True for messages that a server may replay although they were for an earlier holder of the session. */
  #mayBeReplayed(source: MessageSource): boolean {
    const { calls, hasResumed } = this.#session;
    if (!hasResumed) return false;
    const call = source.stream === 'request' ? calls.get(source.id) : undefined;
    if ((call?.resumedStream ?? null) !== null) return true;
    for (const { resumedStream } of calls.values()) if (resumedStream?.isUnverified) return true;
    return false;
  }

  /** Over HTTP+SSE: starts to find out whether a question of a call was broadcast, where that is not known. */
  #checkForBroadcast(message: ReceivedMessage): Promise<void> | null {
    const { transport, calls, detector } = this.#session;
    if (!TRAITS[transport.kind].mayBroadcast || message.type !== 'request') return null;
    if (!isQuestion(message.method)) return null;
    const question = questionKey(message.id, message.method, message.params);
    detector.questionReceived(question, this.#session.identity);
    return calls.size === 0 ? null : (this.#options.checkQuestion?.(question) ?? null);
  }

  /** Holds a message until those before it are delivered, and it is checked. */
  #hold(message: ReceivedMessage, source: MessageSource, check: Promise<void> | null): void {
    const isFirst = this.#held === null;
    const held = (this.#held ??= new HeldMessages());
    if (held.add(message, source, check?.catch(() => {}) ?? null)) {
      if (!isFirst) return;
      const end = (error: unknown) => this.#session.fail(asUpstreamFailure(error, true));
      return inBackground(this.#deliverHeld(held), end);
    }
    this.closed(
      new UpstreamFailure(
        'upstream_protocol_error',
        'it sent too much before it was known whether it broadcasts',
        { mayHaveActed: true },
      ),
    );
  }

  /** Delivers held messages in their order, and what comes meanwhile, until none is left. */
  async #deliverHeld(held: HeldMessages): Promise<void> {
    for (let check = held.nextCheck; check !== undefined; check = held.nextCheck) {
      if (check !== null) await check;
      // The session is over.
      if (this.#held !== held) return;
      const next = held.take();
      if (next !== undefined) this.#deliver(next.message, next.source);
    }
    this.#held = null;
  }

  #deliver(message: ReceivedMessage, source: MessageSource): void {
    const session = this.#session;
    const call = source.stream === 'request' ? session.calls.get(source.id) : undefined;
    const resumed = call?.resumedStream ?? null;
    if (call !== undefined && resumed !== null && !this.#isAccepted(call, resumed, message)) return;
    if (message.type === 'response') {
      if (message.id !== null) this.#onReply(upstreamRequestId(message.id), message.reply);
      return;
    }
    const roots = this.#knownRoots(message);
    if (roots !== null) return session.reply(roots.id, roots.reply);
    const { transport, calls, questions, detector } = session;
    const { hasUnfinished } = questions;
    const isAnyCalls = resumed?.isShared === true && (calls.size > 1 || hasUnfinished);
    const from: MessageSource = isAnyCalls ? { stream: 'standalone' } : source;
    const context = { transport: transport.kind, calls, hasUnfinished, detector };
    this.#follow(routeOf(message, from, context));
  }

  /** Returns the reply to a request for the roots of the caller, if they are known. One about a task is answered in its call. */
  #knownRoots(message: ReceivedMessage): RootsReply | null {
    if (message.type !== 'request' || message.method !== 'roots/list') return null;
    if (relatedTaskOf(message.params) !== null) return null;
    const reply = this.#session.roots?.reply() ?? null;
    return reply && { id: serverRequestId(message.id), reply };
  }

  /** Ends the call if its resumed stream carries messages of another one: then none of them can be trusted. */
  #isAccepted(call: SessionCall, stream: ResumedStream, message: ReceivedMessage): boolean {
    const session = this.#session;
    const check = stream.check(message, (id) => session.detector.isIssuedBy(id, session.identity));
    if (check.type === 'mixed') {
      session.detector.mixesStreams = true;
      session.transport.abandon(call.id);
      const failure = new UpstreamFailure('streams_mixed', check.problem, { mayHaveActed: true });
      session.loseCall(call.id, failure);
    }
    return check.type === 'accepted';
  }

  #follow(route: RoutedMessage<SessionCall>): void {
    const session = this.#session;
    switch (route.type) {
      case 'ignored':
        return;
      case 'question': {
        const { call, id, method, params } = route;
        // A resumed stream can repeat what another call of the session was asked.
        if (call.resumedStream !== null && !call.wasAsked(id) && session.questions.wasAsked(id))
          return;
        session.questions.cameOnStream(method);
        return call.ask(id, method, params, call.resumedStream === null ? 'own' : 'resumed');
      }
      case 'uncorrelated-question':
        return session.questions.receive(route);
      case 'gateway-reply':
        if (route.unanswerable !== undefined) {
          for (const { listener } of session.calls.values()) {
            listener.unanswerable(route.unanswerable, 'broadcast');
          }
        }
        return session.reply(route.id, route.reply);
      case 'withdrawn':
        return session.questions.withdraw(route.id);
      case 'url-visited':
        return session.visits.completed(route.elicitationId);
      case 'changed':
        this.#options.onChange?.(route.method);
        session.changeListener?.changed(route.method, route.params);
        return;
      case 'notified':
        return route.call.notify(route.method, route.params);
    }
  }

  #onReply(id: UpstreamRequestId, reply: RequestOutcome): void {
    const session = this.#session;
    const call = session.endCall(id, true);
    if (call === null) return session.requests.settle(id, reply);
    if (reply instanceof UpstreamFailure) return call.listener.lost(reply);
    if ('error' in reply && call.sessionMayBeGone && isSessionError(reply.error)) {
      return call.listener.lost(session.noted(sessionUnknown()));
    }
    call.listener.replied(reply);
  }

  /** Lists may have changed while the stream was not open. */
  #changesMissed(): void {
    for (const method of LIST_CHANGES) this.#options.onChange?.(method);
  }
}

/** Beyond this number notifications are dropped. */
const MAX_MESSAGES = 256;
/** Beyond this size the session is closed: it cannot go on with messages left out. The message that exceeds it is still held. */
const MAX_BYTES = 8 * 1024 * 1024;

interface HeldMessage {
  readonly message: ReceivedMessage;
  readonly source: MessageSource;
  /** Resolves when it is known whether the message was broadcast; `null` for one that need not be checked. */
  readonly check: Promise<void> | null;
  readonly bytes: number;
}

/** Messages of one session that wait while it is found out whether a question was broadcast. */
export class HeldMessages {
  readonly #messages: HeldMessage[] = [];
  #bytes = 0;

  /** @returns false if there is no room for the message */
  add(
    message: ReceivedMessage,
    source: MessageSource,
    check: Promise<void> | null = null,
  ): boolean {
    const isNotification = message.type === 'notification';
    if (isNotification && this.#messages.length >= MAX_MESSAGES) return true;
    if (this.#bytes > MAX_BYTES) return isNotification;
    const bytes = Buffer.byteLength(JSON.stringify(message));
    this.#bytes += bytes;
    this.#messages.push({ message, source, check, bytes });
    return true;
  }

  /** The check of the message that came first; `undefined` if there is none. */
  get nextCheck(): Promise<void> | null | undefined {
    return this.#messages[0]?.check;
  }

  /** Takes the message that came first. */
  take(): HeldMessage | undefined {
    const first = this.#messages.shift();
    this.#bytes -= first?.bytes ?? 0;
    return first;
  }
}
