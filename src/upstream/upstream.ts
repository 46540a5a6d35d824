/** One legacy server behind a route: opens sessions, once its greeting has shown how. */
import { inBackground } from '../lib/background.ts';
import { sleep, type Clock } from '../lib/clock.ts';
import { Semaphore } from '../lib/semaphore.ts';
import { EMPTY_PROFILE } from '../protocol/translate/client-profile.ts';
import type { LegacyRevision } from '../protocol/meta.ts';
import {
  AskingStyleDetector,
  type AskingStyle,
  BroadcastDetector,
} from './discovery/broadcast-detector.ts';
import { BroadcastProbe, repliesToPing } from './quirks/broadcast-probe.ts';
import { isRefusal, type LegacyTransport } from './discovery/detection.ts';
import { asUpstreamFailure, UpstreamFailure } from '../model/upstream-failure.ts';
import { GreetedServer } from './discovery/greetings.ts';
import { Handshakes } from './discovery/handshakes.ts';
import type { LegacyServer, SessionRequest, UpstreamOptions } from './legacy-server.ts';
import { FREED_AFTER_MS, OneSession } from './quirks/one-session.ts';
import { DeferredHeaders } from './quirks/deferred-headers.ts';
import { Resumptions } from './discovery/resumptions.ts';
import { describeServer, type InitializeResult } from './session/handshake.ts';
import { MAX_PINGS } from './session/keep-alive.ts';
import { Session, type SessionOptions } from './session/session.ts';
import { logSession } from './session/session-log.ts';
import { connector } from './transport/factories.ts';
import { MessagePaths } from './transport/http-sse/message-paths.ts';
import { TRAITS, traitsOf, type TransportTraits } from './transport/traits.ts';
import type {
  CallerHeaders,
  SessionPoint,
  Transport,
  TransportListener,
} from './transport/transport.ts';

export class Upstream extends GreetedServer implements LegacyServer {
  /** The paths to which a server of HTTP+SSE wants messages posted. */
  readonly messagePaths: MessagePaths;
  readonly detector: BroadcastDetector;
  readonly #askingStyle = new AskingStyleDetector();
  readonly #broadcastProbe: BroadcastProbe;
  readonly #oneSession: OneSession;
  readonly #resumptions: Resumptions;
  readonly #deferredHeaders = new DeferredHeaders();
  readonly #pings = new Semaphore(MAX_PINGS);
  #revision: LegacyRevision | null = null;
  readonly #handshakes: Handshakes;

  constructor(options: UpstreamOptions, clock: Clock) {
    super(options, clock);
    this.messagePaths = new MessagePaths(options.url);
    const { hasSiblings = false, log } = options;
    this.detector = new BroadcastDetector({
      now: () => clock.now(),
      hasSiblings,
      log,
    });
    this.#resumptions = new Resumptions(clock, log);
    this.#broadcastProbe = new BroadcastProbe(clock, this.detector);
    this.#oneSession = new OneSession({
      isConfigured: options.hasOneSession === true,
      broken: () => this.http.broken,
      replies: (session) => repliesToPing(session, clock),
      onCertain: (cause) => log?.event('upstream.one_session', { cause }),
    });
    this.#handshakes = new Handshakes(clock);
  }

  /** The revision that the server chose last, if known. */
  get revision(): LegacyRevision | null {
    return this.#revision;
  }

  get hasOneSession(): boolean {
    return this.#oneSession.isOne;
  }

  /** Where the server was seen to ask. The one stream of HTTP+SSE names no call. */
  get askingStyle(): AskingStyle {
    return this.traits?.namesTheCall === false ? 'uncorrelated' : this.#askingStyle.style;
  }

  get deliversResumed(): boolean {
    return this.#resumptions.deliver && !this.detector.mixesStreams;
  }

  get traits(): TransportTraits | null {
    return traitsOf(this.knownKind);
  }

  /**
   * Opens a session for a client with this profile.
   * @param isSecondTry whether the server has refused it, perhaps for a session of the gateway that has ended since
   * @throws UpstreamFailure
   */
  async openSession(request: SessionRequest, isSecondTry = false): Promise<Session> {
    const kind = this.knownKind ?? (await this.greetAlone(request.headers));
    if (kind === 'modern') throw serverIsModern();
    const { leftOpen } = this;
    const opening = this.#oneSession.begin();
    try {
      const session = await this.#openFor(kind, request);
      await this.#oneSession.opened(opening, session);
      return session;
    } catch (error) {
      const failure = asUpstreamFailure(error, false);
      await this.#oneSession.failed(opening, failure);
      if (this.hasOneSession || !isRefusal(failure)) throw error;
      // It may take no session beside one of the gateway's own.
      const ends = isSecondTry ? [] : [leftOpen, this.#broadcastProbe.makeRoom()];
      const ending = ends.filter((end) => end !== null);
      if (ending.length > 0) {
        await Promise.all(ending);
        return this.openSession(request, true);
      }
      if (!this.doubt()) throw error;
      // It may have been upgraded.
      const now = await this.greetAlone(request.headers).catch(() => kind);
      if (now === 'modern') throw serverIsModern();
      if (now === kind) throw error;
      return this.#openFor(now, request);
    }
  }

  /**
   * Takes over a session that another process opened, or that was left. Throws UpstreamFailure if the transport
   * cannot do that.
   */
  async resumeSession(
    request: SessionRequest,
    { sessionId, revision, initialized }: SessionPoint,
  ): Promise<Session> {
    const kind = this.knownKind ?? (await this.greetAlone(request.headers));
    if (kind === 'modern' || !TRAITS[kind].resumes) {
      throw new UpstreamFailure('session_gone', 'this transport cannot be resumed', {
        mayHaveActed: true,
      });
    }
    this.#revision ??= revision;
    const options = {
      ...this.#sessionOptions(request),
      describe: (headers: CallerHeaders) =>
        this.hasOneSession ? null : this.#describe({ ...request, headers }),
    };
    return Session.adopt(sessionId, this.#connect(kind), options, this.clock, {
      revision,
      initialized: initialized === undefined ? null : describeServer(initialized, revision),
    });
  }

  async close(): Promise<void> {
    await this.#broadcastProbe.close();
    await this.http.close();
  }

  async #openFor(kind: LegacyTransport, request: SessionRequest): Promise<Session> {
    const open = () => this.open(kind, request);
    const session =
      TRAITS[kind].mayBroadcast && !this.hasOneSession
        ? await this.#broadcastProbe.openSession(open)
        : (this.#withoutHandshake(request) ?? (await open()));
    this.opened(kind, session);
    logSession(session, this.options.log, this.clock);
    return session;
  }

  /** Returns a session with a server that gives no session ids; `null` if it has to be opened. */
  #withoutHandshake(request: SessionRequest): Session | null {
    const greetAgain = () =>
      void this.open('streamable-http', { ...request, profile: EMPTY_PROFILE })
        .then((session) => session.close())
        .catch(() => {});
    const known = this.#handshakes.get(request.headers, greetAgain);
    if (known === null) return null;
    const options = { ...this.#sessionOptions(request), onGone: () => this.#handshakes.forget() };
    return Session.adopt(null, this.#connect('streamable-http'), options, this.clock, {
      revision: known.protocolVersion,
      initialized: known,
    });
  }

  /** Asks what the server says of itself to this caller, in a session that ends at once. @throws UpstreamFailure */
  async #describe(request: SessionRequest): Promise<InitializeResult> {
    const options = { ...this.#sessionOptions(request), standaloneStream: false };
    const session = await Session.open(this.#connect('streamable-http'), options, this.clock);
    inBackground(session.close());
    return session.initializeResult;
  }

  protected async open(kind: LegacyTransport, request: SessionRequest): Promise<Session> {
    if (this.hasOneSession) {
      await this.#broadcastProbe.close();
      if (this.#revision !== null) await sleep(this.clock, FREED_AFTER_MS);
    }
    const options = this.#sessionOptions(request);
    const session = await this.#initialize(kind, options);
    this.#revision = session.initializeResult.protocolVersion;
    if (session.interactive) this.#handshakes.forget();
    else this.#handshakes.keep(request.headers, session.initializeResult);
    return session;
  }

  #connect(kind: LegacyTransport): (listener: TransportListener) => Transport {
    return connector(kind, this.http, this.clock, {
      deferredHeaders: this.#deferredHeaders,
      random: this.options.random,
      noteResumption: (outcome) => this.#resumptions.note(outcome),
      onEndpoint: (endpoint) => this.messagePaths.toldUs(endpoint),
    });
  }

  async #initialize(kind: LegacyTransport, options: SessionOptions): Promise<Session> {
    try {
      return await Session.open(this.#connect(kind), options, this.clock);
    } catch (error) {
      // The gateway aborted the request: no result is recorded.
      const failure = asUpstreamFailure(error, false);
      if (failure.code === 'upstream_timeout') this.options.onOutcome?.(failure);
      throw error;
    }
  }

  #sessionOptions(request: SessionRequest): SessionOptions {
    const { gatewayInfo, headersTimeoutMs, pingIntervalMs, statefulWithoutSessionId } =
      this.options;
    const { onChange, log, rootsHabit } = this.options;
    return {
      profile: request.profile,
      clientInfo: request.clientInfo ?? { ...gatewayInfo },
      headers: request.headers,
      knownRevision: this.revision,
      requestTimeoutMs: headersTimeoutMs,
      pingIntervalMs,
      pings: this.#pings,
      statefulWithoutSessionId,
      // Also for a client that declares nothing: a server that asks on the stream nevertheless has to be
      // refused, or it waits for an answer to a question that was not delivered.
      standaloneStream: true,
      detector: this.detector,
      askingStyle: this.#askingStyle,
      rootsHabit,
      checkQuestion: (question) =>
        this.#broadcastProbe.isOpen ? this.#broadcastProbe.checkQuestion(question) : null,
      onChange,
      log,
    };
  }
}

function serverIsModern(): UpstreamFailure {
  return new UpstreamFailure(
    'server_is_modern',
    'the server does not accept a legacy handshake with a session, and speaks 2026-07-28',
    { mayHaveActed: false },
  );
}
