/**
 * One legacy server behind a route: finds out which transport it speaks, and opens sessions.
 */
import { sleep, type Clock } from '../lib/clock.ts';
import { EMPTY_PROFILE } from '../protocol/translate/client-profile.ts';
import type { LegacyRevision } from '../protocol/meta.ts';
import { AskingStyleDetector, type AskingStyle, BroadcastDetector } from './broadcast-detector.ts';
import { BroadcastProbe } from './broadcast-probe.ts';
import {
  detect,
  isRefusal,
  type Detected,
  type DetectionCause,
  type LegacyTransport,
  type UpstreamKind,
} from './detection.ts';
import { Handshakes } from './handshakes.ts';
import { HttpClient } from './http/client.ts';
import { readListings, type List } from './listings.ts';
import { ModernSide } from './modern-side.ts';
import { OneSession } from './one-session.ts';
import { onlyModern, type Side } from './offerings.ts';
import type { Greeting, SessionRequest, UpstreamOptions } from './options.ts';
import { HttpSseTransport } from './transport/http-sse/http-sse.ts';
import { MessagePaths } from './transport/http-sse/message-paths.ts';
import { PingTurns } from './session/keep-alive.ts';
import { Session, type SessionOptions } from './session/session.ts';
import type { InitializeResult } from './session/handshake.ts';
import { StreamableHttpTransport } from './transport/streamable-http.ts';
import type {
  CallerHeaders,
  StreamPoint,
  Transport,
  TransportListener,
} from './transport/transport.ts';
import { asUpstreamFailure, UpstreamFailure } from './failure.ts';

/** The timeout of the probe for the modern era of a server that takes a legacy handshake, in ms. */
const PROBE_TIMEOUT_MS = 3_000;
/** How long a server with one session may take to notice that its session has ended, in ms. Over HTTP+SSE nobody tells it. */
const FREED_AFTER_MS = 100;
/** How soon after one detection another one may follow, in ms. */
const MIN_DETECTION_GAP_MS = 1_000;
/** Clients that connect wait for a greeting, and some fall back to the legacy era after 5 s. In ms. */
const SLOW_GREETING_MS = 3_000;

export class Upstream {
  /** The paths to which a server of HTTP+SSE wants messages posted. */
  readonly messagePaths: MessagePaths;
  readonly detector: BroadcastDetector;
  readonly #askingStyle = new AskingStyleDetector();
  readonly #broadcastProbe: BroadcastProbe;
  readonly #oneSession: OneSession;
  readonly #options: UpstreamOptions;
  readonly #http: HttpClient;
  readonly #pings = new PingTurns();
  readonly #modern: ModernSide;
  readonly #clock: Clock;
  /** What the operator configured. */
  readonly #configured: UpstreamKind | null;
  /** What a response of the server has shown. */
  #greeted: UpstreamKind | null = null;
  #greetedAtMs = 0;
  #cause: DetectionCause | null = null;
  /** Whether the server was seen to speak 2026-07-28, so that clients can have a `requestState` of its own. */
  #hasModernSide: boolean;
  /** Whether the server may speak something else by now. */
  #isDoubted = false;
  #comparing: Promise<void> | null = null;
  #greeting: { readonly headers: string; readonly kind: Promise<UpstreamKind> } | null = null;
  #initialized: InitializeResult | null = null;
  #lastGreeting: Greeting | null = null;
  readonly #handshakes: Handshakes;

  constructor(options: UpstreamOptions, clock: Clock) {
    this.messagePaths = new MessagePaths(options.url);
    const { hasSiblings = false, onBroadcast } = options;
    this.detector = new BroadcastDetector({
      now: () => clock.now(),
      hasSiblings,
      ...(onBroadcast === undefined ? {} : { onBroadcast }),
    });
    this.#broadcastProbe = new BroadcastProbe(clock, this.detector);
    this.#options = options;
    this.#http = new HttpClient(options, clock);
    this.#oneSession = new OneSession({
      isConfigured: options.hasOneSession === true,
      broken: () => this.#http.broken,
      onCertain: (cause) => options.onOneSession?.(cause),
    });
    this.#modern = new ModernSide(this.#http, { ...options.gatewayInfo });
    this.#clock = clock;
    this.#handshakes = new Handshakes(clock);
    const { era, transport } = options;
    this.#configured = era === 'modern' ? era : transport === 'auto' ? null : transport;
    this.#hasModernSide = era !== 'auto';
  }

  /** The revision that the server chose last, if known. */
  get revision(): LegacyRevision | null {
    return this.#initialized?.protocolVersion ?? null;
  }

  get hasOneSession(): boolean {
    return this.#oneSession.isOne;
  }

  /** Where the server was seen to ask. The one stream of HTTP+SSE names no call. */
  get askingStyle(): AskingStyle {
    return this.knownKind === 'http-sse' ? 'unrelated' : this.#askingStyle.style;
  }

  /** What the server speaks, if it is configured or known from a response. */
  get knownKind(): UpstreamKind | null {
    return this.#isDoubted ? null : (this.#greeted ?? this.#configured);
  }

  /** What the server speaks, if it is known from a response. */
  get greetedKind(): UpstreamKind | null {
    return this.#greeted;
  }

  /**
   * Waits for a greeting that is on its way, and returns what the server said of itself in the last one, or `null`.
   * Never rejects.
   */
  async lastGreeting(): Promise<Greeting | null> {
    await this.#greeting?.kind.catch(() => {});
    return this.#lastGreeting;
  }

  /** Whether a `requestState` can be one that the server issued itself, to a client that was passed through. */
  get mayIssueStates(): boolean {
    return this.#hasModernSide;
  }

  /**
   * Returns what the server speaks, and asks it if that is not known.
   * @throws UpstreamFailure if it cannot be found out
   */
  async detect(headers: CallerHeaders): Promise<UpstreamKind> {
    return this.knownKind ?? this.greet(headers);
  }

  /**
   * Finds out from a response what the server speaks, see `detect` in `detection.ts`. Refused credentials decide
   * nothing.
   * @throws UpstreamFailure if the server does not respond, or it cannot be found out
   */
  async greet(headers: CallerHeaders): Promise<UpstreamKind> {
    if (this.#greeted !== null && !this.#isDoubted) return this.#greeted;
    const leave = this.hasOneSession ? await this.#options.takeTurn?.() : undefined;
    try {
      return await this.#greetInTurn(headers);
    } finally {
      leave?.();
    }
  }

  /** Greets the server for who has the place of a session. */
  async #greetInTurn(headers: CallerHeaders): Promise<UpstreamKind> {
    if (this.#greeted !== null && !this.#isDoubted) return this.#greeted;
    const ours = JSON.stringify(headers);
    const running = this.#greeting;
    if (running === null) {
      const kind = this.#greet(headers).finally(() => {
        this.#greeting = null;
      });
      this.#greeting = { headers: ours, kind };
      return kind;
    }
    return running.kind.catch((error: unknown) => {
      const refused = asUpstreamFailure(error, false).code === 'unauthorized';
      if (!refused || running.headers === ours) throw error;
      // The credentials of another caller were refused. That is not to be told to this one.
      return this.#greeted ?? this.#greet(headers);
    });
  }

  /**
   * Has the next request find out again what the server speaks: it has replied in a way that does not fit, or broke
   * a connection, so that it may have been upgraded. A configured server does not change.
   * @returns false if it was found out a moment ago, so that it is not done again
   */
  doubt(): boolean {
    const isRecent = this.#clock.elapsed() - this.#greetedAtMs < MIN_DETECTION_GAP_MS;
    if (this.#configured !== null || this.#greeted === null || isRecent) return false;
    this.#isDoubted = true;
    return true;
  }

  /**
   * Reads what a modern client sees of the server.
   * @returns `null` if it does not speak 2026-07-28
   * @throws UpstreamFailure
   */
  modernSide(headers: CallerHeaders): Promise<Side | null> {
    return this.#modern.side(headers, PROBE_TIMEOUT_MS, this.#options.headersTimeoutMs);
  }

  /** Opens a session for a client with this profile. Throws UpstreamFailure. */
  async openSession(request: SessionRequest): Promise<Session> {
    const kind = this.knownKind ?? (await this.#greetInTurn(request.headers));
    if (kind === 'modern') throw serverIsModern();
    const opening = this.#oneSession.begin();
    try {
      const session = await this.#openFor(kind, request);
      this.#oneSession.opened(opening, session);
      return session;
    } catch (error) {
      const failure = asUpstreamFailure(error, false);
      this.#oneSession.failed(opening, failure);
      if (this.hasOneSession || !isRefusal(failure) || !this.doubt()) throw error;
      // It may have been upgraded.
      const now = await this.#greetInTurn(request.headers).catch(() => kind);
      if (now === 'modern') throw serverIsModern();
      if (now === kind) throw error;
      return this.#openFor(now, request);
    }
  }

  /**
   * Takes over a session that another process opened, or that was left. Throws UpstreamFailure if the transport
   * cannot do that.
   */
  async adoptSession(
    request: SessionRequest,
    { sessionId, revision }: Pick<StreamPoint, 'sessionId' | 'revision'>,
  ): Promise<Session> {
    const kind = this.knownKind ?? (await this.#greetInTurn(request.headers));
    if (kind !== 'streamable-http') {
      throw new UpstreamFailure('session_gone', 'this transport cannot be resumed', {
        mayHaveActed: true,
      });
    }
    const initialized = this.#initialized ?? {
      protocolVersion: revision,
      capabilities: {},
      raw: {},
    };
    const options = this.#sessionOptions(request);
    return Session.adopt(sessionId, this.#connect(kind), options, this.#clock, {
      ...initialized,
      protocolVersion: revision,
    });
  }

  async close(): Promise<void> {
    await this.#broadcastProbe.close();
    await this.#http.close();
  }

  async #openFor(kind: LegacyTransport, request: SessionRequest): Promise<Session> {
    const open = () => this.#open(kind, request);
    const session =
      kind === 'http-sse' && !this.hasOneSession
        ? await this.#broadcastProbe.openSession(open)
        : (this.#withoutHandshake(request) ?? (await open()));
    if (this.#greeted === null) this.#detected(kind, 'configured');
    // It had sessions, in which its tools could ask.
    if (this.#cause === 'sessions' && !session.interactive) this.doubt();
    this.#options.onSession?.(session, kind);
    return session;
  }

  /** Returns a session with a server that gives no session ids; `null` if it has to be opened. */
  #withoutHandshake(request: SessionRequest): Session | null {
    const greetAgain = () =>
      void this.#open('streamable-http', { ...request, profile: EMPTY_PROFILE })
        .then((session) => session.close())
        .catch(() => {});
    const known = this.#handshakes.get(request.headers, greetAgain);
    if (known === null) return null;
    const options = { ...this.#sessionOptions(request), onGone: () => this.#handshakes.forget() };
    return Session.adopt(null, this.#connect('streamable-http'), options, this.#clock, known);
  }

  async #greet(headers: CallerHeaders): Promise<UpstreamKind> {
    const { era, transport, headersTimeoutMs } = this.#options;
    const startedAtMs = this.#clock.elapsed();
    const detected = await detect({
      era,
      transport,
      open: async (kind) => {
        const request = { profile: EMPTY_PROFILE, clientInfo: null, headers };
        const session = await this.#open(kind, request);
        const { initializeResult: initialized, standaloneStreamOpen: hasStream } = session;
        this.#lastGreeting = { headers: JSON.stringify(headers), initialized, hasStream };
        return session;
      },
      modern: (isAwaited) =>
        this.#modern.capabilities(headers, isAwaited ? headersTimeoutMs : PROBE_TIMEOUT_MS),
    });
    const tookMs = this.#clock.elapsed() - startedAtMs;
    if (tookMs > SLOW_GREETING_MS) this.#options.onSlow?.(tookMs);
    this.#detected(detected.kind, detected.cause);
    await this.#endGreeting(detected, headers);
    return detected.kind;
  }

  #detected(kind: UpstreamKind, cause: DetectionCause): void {
    if (kind !== this.#greeted) this.#options.onDetected?.(kind, cause);
    this.#greeted = kind;
    this.#cause = cause;
    this.#hasModernSide ||= kind === 'modern';
    this.#greetedAtMs = this.#clock.elapsed();
    this.#isDoubted = false;
  }

  /** Ends the session of the greeting. A server that speaks both eras is compared first, once. */
  async #endGreeting({ kind, cause, session }: Detected, headers: CallerHeaders): Promise<void> {
    if (session === null) return;
    const isAsked = this.#options.onOnlyModern === undefined || this.#comparing !== null;
    if (isAsked || kind !== 'streamable-http' || cause !== 'sessions') return session.close();
    this.#comparing = this.#compare(session, headers)
      .catch(() => {})
      .then(() => session.close());
    if (this.hasOneSession) await this.#comparing;
  }

  async #compare(session: Session, headers: CallerHeaders): Promise<void> {
    const modern = await this.modernSide(headers);
    if (modern === null) return;
    this.#hasModernSide = true;
    const { capabilities } = session.initializeResult;
    const list: List = (method, params) => session.request(method, params, headers);
    const legacy = { capabilities, ...(await readListings(capabilities, list)) };
    const offerings = onlyModern(modern, legacy);
    if (offerings.length > 0) this.#options.onOnlyModern?.(offerings);
  }

  async #open(kind: LegacyTransport, request: SessionRequest): Promise<Session> {
    if (this.hasOneSession) {
      await this.#broadcastProbe.close();
      if (this.#initialized !== null) await sleep(this.#clock, FREED_AFTER_MS);
    }
    const options = this.#sessionOptions(request);
    const session = await Session.open(this.#connect(kind), options, this.#clock);
    this.#initialized = session.initializeResult;
    if (kind === 'http-sse') return session;
    if (session.interactive) this.#handshakes.forget();
    else this.#handshakes.keep(request.headers, session.initializeResult);
    return session;
  }

  #connect(kind: LegacyTransport): (listener: TransportListener) => Transport {
    return (listener) =>
      kind === 'http-sse'
        ? new HttpSseTransport(this.#http, listener, this.#clock, (endpoint) =>
            this.messagePaths.toldUs(endpoint),
          )
        : new StreamableHttpTransport(this.#http, listener, this.#clock);
  }

  #sessionOptions(request: SessionRequest): SessionOptions {
    const { gatewayInfo, headersTimeoutMs, pingIntervalMs, statefulWithoutSessionId } =
      this.#options;
    return {
      profile: request.profile,
      clientInfo: request.clientInfo ?? { ...gatewayInfo },
      headers: request.headers,
      knownRevision: this.revision,
      requestTimeoutMs: headersTimeoutMs,
      pingIntervalMs,
      pings: this.#pings,
      statefulWithoutSessionId,
      // Also for a client that declares nothing: a server that asks on the stream all the same has to be
      // refused, or it waits for an answer to a question that was not delivered.
      standaloneStream: true,
      detector: this.detector,
      askingStyle: this.#askingStyle,
      checkQuestion: (question) =>
        this.#broadcastProbe.isOpen ? this.#broadcastProbe.checkQuestion(question) : null,
      ...(this.#options.onChange === undefined ? {} : { onChange: this.#options.onChange }),
    };
  }
}

function serverIsModern(): UpstreamFailure {
  return new UpstreamFailure(
    'server_is_modern',
    'the server does not take a legacy handshake with a session, and speaks 2026-07-28',
    { mayHaveActed: false },
  );
}
