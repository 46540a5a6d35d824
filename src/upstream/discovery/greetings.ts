/** Greets a legacy server to find out which transport and era it speaks, and doubts what it found out when that no longer fits. */
import { inBackground } from '../../lib/background.ts';
import { sleep, type Clock } from '../../lib/clock.ts';
import { EMPTY_PROFILE } from '../../protocol/translate/client-profile.ts';
import {
  detect,
  type Detected,
  type DetectionCause,
  type LegacyTransport,
  type UpstreamKind,
} from './detection.ts';
import type { ModernServer } from '../../model/modern-server.ts';
import { asUpstreamFailure } from '../../model/upstream-failure.ts';
import { HttpClient } from '../http/client.ts';
import { readListings, type List } from './listings.ts';
import { ModernHttp } from '../modern/http.ts';
import { ModernSide, onlyModern, type Side } from './modern-side.ts';
import { FREED_AFTER_MS } from '../quirks/one-session.ts';
import {
  OWN_HEADERS,
  type Greeting,
  type SessionRequest,
  type UpstreamOptions,
} from '../legacy-server.ts';
import type { Session } from '../session/session.ts';
import type { CallerHeaders } from '../transport/transport.ts';

/** The timeout of the probe for the modern era of a server that takes a legacy handshake, in ms. */
const PROBE_TIMEOUT_MS = 3_000;
/** How long after an answer that decided nothing the server is asked again, at first and at most, in ms. */
const ASK_AGAIN_MS = 10_000;
const MAX_ASK_AGAIN_MS = 600_000;
/** How soon after one detection another one may follow, in ms. */
const MIN_DETECTION_GAP_MS = 1_000;
/** Clients that connect wait for a greeting, and some fall back to the legacy era after 5 s. In ms. */
const SLOW_GREETING_MS = 3_000;

/** A server over HTTP, as far as it is known from greetings. */
export abstract class GreetedServer {
  protected readonly options: UpstreamOptions;
  protected readonly clock: Clock;
  protected readonly http: HttpClient;
  /** The server as one of 2026-07-28. */
  readonly modern: ModernServer;
  readonly #modern: ModernSide;
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
  #hasCompared = false;
  #askAgainAtMs = 0;
  #askAgainMs = ASK_AGAIN_MS;
  #leftOpen: Promise<void> | null = null;
  #greeting: { readonly headers: string; readonly kind: Promise<UpstreamKind> } | null = null;
  #lastGreeting: Greeting | null = null;

  constructor(options: UpstreamOptions, clock: Clock) {
    this.options = options;
    this.clock = clock;
    this.http = new HttpClient(options, clock);
    this.modern = new ModernHttp(this.http, () => void this.doubt());
    const { era, transport, gatewayInfo } = options;
    this.#modern = new ModernSide(this.http, { ...gatewayInfo });
    this.#configured = era === 'modern' ? era : transport === 'auto' ? null : transport;
    this.#hasModernSide = era !== 'auto';
  }

  /** Whether the server can have one session only, over all callers. */
  abstract get hasOneSession(): boolean;

  /** Opens a session. @throws UpstreamFailure */
  protected abstract open(kind: LegacyTransport, request: SessionRequest): Promise<Session>;

  /** What the server speaks, if it is configured or known from a response. */
  get knownKind(): UpstreamKind | null {
    return this.#isDoubted ? null : (this.#greeted ?? this.#configured);
  }

  /** What the server speaks, if it is known from a response. */
  get greetedKind(): UpstreamKind | null {
    return this.#greeted;
  }

  /** Whether a `requestState` can be one that the server issued itself, to a client that was passed through. */
  get mayIssueStates(): boolean {
    return this.#hasModernSide;
  }

  /** Resolves when the server has noticed the end of the last greeting's session; `null` after that. */
  protected get leftOpen(): Promise<void> | null {
    return this.#leftOpen;
  }

  /**
   * Waits for a greeting that is on its way, and returns what the server said of itself in the last one, or `null`.
   * What a modern server says in a handshake is not for its clients. Never rejects.
   */
  async lastGreeting(): Promise<Greeting | null> {
    await this.#greeting?.kind.catch(() => {});
    return this.#greeted === 'modern' ? null : this.#lastGreeting;
  }

  /**
   * Finds out from a response what the server speaks, see `detect` in `detection.ts`. Refused credentials decide
   * nothing.
   * @throws UpstreamFailure if the server does not respond, or it cannot be found out
   */
  async greet(headers: CallerHeaders): Promise<UpstreamKind> {
    if (this.#greeted !== null && !this.#isDoubted) return this.#greeted;
    const leave = this.hasOneSession ? await this.options.reserveOnlySession?.() : undefined;
    try {
      return await this.greetAlone(headers);
    } finally {
      leave?.();
    }
  }

  /** Returns what the server speaks, and greets it if that is not known. @throws UpstreamFailure */
  async detect(headers: CallerHeaders): Promise<UpstreamKind> {
    return this.knownKind ?? this.greet(headers);
  }

  /** Greets the server for who has reserved its only session. */
  protected async greetAlone(headers: CallerHeaders): Promise<UpstreamKind> {
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
    const isRecent = this.clock.elapsed() - this.#greetedAtMs < MIN_DETECTION_GAP_MS;
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
    return this.#modern.side(headers, PROBE_TIMEOUT_MS, this.options.headersTimeoutMs);
  }

  /** Notes a session that was opened for a caller, which shows what the server speaks. */
  protected opened(kind: LegacyTransport, session: Session): void {
    if (this.#greeted === null) this.#detected(kind, 'configured');
    // It had sessions, in which its tools could ask.
    if (this.#cause === 'sessions' && !session.interactive) this.doubt();
  }

  async #greet(headers: CallerHeaders): Promise<UpstreamKind> {
    const { era, transport, headersTimeoutMs } = this.options;
    const startedAtMs = this.clock.elapsed();
    const detected = await detect({
      era,
      transport,
      open: async (kind) => {
        const request = { profile: EMPTY_PROFILE, clientInfo: null, headers };
        const session = await this.open(kind, request);
        const { initializeResult: initialized, canPush: hasStream } = session;
        const greeting = { headers: JSON.stringify(headers), initialized, hasStream };
        this.#lastGreeting = greeting;
        if (greeting.headers === OWN_HEADERS) this.options.onGreeted?.(greeting);
        return session;
      },
      modern: (isAwaited) =>
        this.#modern.capabilities(headers, isAwaited ? headersTimeoutMs : PROBE_TIMEOUT_MS),
    });
    const tookMs = this.clock.elapsed() - startedAtMs;
    const { log } = this.options;
    if (tookMs > SLOW_GREETING_MS) log?.event('upstream.slow', { ms: Math.round(tookMs) });
    this.#detected(detected.kind, detected.cause);
    await this.#endGreeting(detected, headers);
    return detected.kind;
  }

  /** Asks a server that has not said whether it is modern once more, with growing pauses. Nothing waits for that. */
  askAgain(headers: CallerHeaders): void {
    inBackground(this.#askAgain(headers));
  }

  async #askAgain(headers: CallerHeaders): Promise<void> {
    const nowMs = this.clock.elapsed();
    if (this.#cause !== 'legacy_for_now' || nowMs < this.#askAgainAtMs) return;
    this.#askAgainAtMs = nowMs + this.#askAgainMs;
    this.#askAgainMs = Math.min(this.#askAgainMs * 2, MAX_ASK_AGAIN_MS);
    const asked = this.#modern.capabilities(headers, PROBE_TIMEOUT_MS);
    const answer = await asked.catch(() => 'undecided');
    if (answer === 'undecided' || this.#cause !== 'legacy_for_now') return;
    if (answer === null) this.#detected('streamable-http', 'only_legacy');
    else this.#detected('modern', 'no_sessions');
  }

  #detected(kind: UpstreamKind, cause: DetectionCause): void {
    if (cause === 'legacy_for_now' && this.#cause !== cause) {
      this.#askAgainMs = ASK_AGAIN_MS;
      this.#askAgainAtMs = this.clock.elapsed() + ASK_AGAIN_MS;
    }
    if (kind !== this.#greeted) this.options.log?.event('upstream.detected', { kind, cause });
    this.#greeted = kind;
    this.#cause = cause;
    this.#hasModernSide ||= kind === 'modern';
    this.#greetedAtMs = this.clock.elapsed();
    this.#isDoubted = false;
  }

  /** Ends the session of the greeting. A server that supports both protocol versions is compared first, once. */
  async #endGreeting({ kind, cause, session }: Detected, headers: CallerHeaders): Promise<void> {
    if (session === null) return;
    const isCompared =
      this.options.log !== undefined &&
      !this.#hasCompared &&
      kind === 'streamable-http' &&
      cause === 'sessions';
    this.#hasCompared ||= isCompared;
    const closed = isCompared
      ? this.#compare(session, headers)
          .catch(() => {})
          .then(() => session.close())
      : session.close();
    const freed = closed.then(() => sleep(this.clock, FREED_AFTER_MS));
    this.#leftOpen = freed;
    inBackground(
      freed.then(() => {
        if (this.#leftOpen === freed) this.#leftOpen = null;
      }),
    );
    if (!isCompared || this.hasOneSession) await closed;
  }

  async #compare(session: Session, headers: CallerHeaders): Promise<void> {
    const modern = await this.modernSide(headers);
    if (modern === null) return;
    this.#hasModernSide = true;
    const { capabilities } = session.initializeResult;
    const list: List = (method, params) => session.request(method, params, headers);
    const legacy = { capabilities, ...(await readListings(capabilities, list)) };
    const offerings = onlyModern(modern, legacy);
    for (const { what, names } of offerings) {
      this.options.log?.event('upstream.only_modern', { what, names: names.join(', ') });
    }
  }
}
