/**
 * One legacy server behind a route: finds out which transport it speaks, and opens sessions.
 */
import { systemClock, type Clock } from '../lib/clock.ts';
import { EMPTY_PROFILE, type ClientProfile } from '../protocol/translate/client-profile.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../protocol/json.ts';
import { ErrorCode, readMessage } from '../protocol/json-rpc.ts';
import { Meta, MODERN_REVISION, type LegacyRevision } from '../protocol/meta.ts';
import { AskingStyleDetector, type AskingStyle, BroadcastDetector } from './broadcast-detector.ts';
import { BroadcastProbe } from './broadcast-probe.ts';
import { HttpClient } from './http/client.ts';
import { HttpSseTransport } from './transport/http-sse/http-sse.ts';
import { MessagePaths } from './transport/http-sse/message-paths.ts';
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
import { MessageReader } from './http/readers.ts';

export type LegacyTransport = Transport['kind'];
export type UpstreamKind = LegacyTransport | 'modern';

export interface UpstreamOptions {
  readonly url: URL;
  readonly transport: 'auto' | LegacyTransport;
  readonly headers: Readonly<Record<string, string>>;
  readonly connectTimeoutMs: number;
  readonly headersTimeoutMs: number;
  readonly maxBodyBytes: number;
  readonly maxEventBytes: number;
  readonly pingIntervalMs: number;
  readonly statefulWithoutSessionId: boolean;
  /** The `clientInfo` for clients that gave none. */
  readonly gatewayInfo: { readonly name: string; readonly version: string };
  /** Called like `IncomingOptions.onChange`, for every session. */
  readonly onChange?: (method: string) => void;
  /** Whether other replicas may use the server at the same time. */
  readonly hasSiblings?: boolean;
  /** Called once, when the server is first seen to broadcast. */
  readonly onBroadcast?: () => void;
  /** Called with each session that was opened for a caller. */
  readonly onSession?: (session: Session, transport: LegacyTransport) => void;
}

export interface SessionRequest {
  readonly profile: ClientProfile;
  /** The `clientInfo` of the client. Some servers behave differently for different clients. */
  readonly clientInfo: JsonObject | null;
  readonly headers: CallerHeaders;
}

/** The timeout of the probe for the modern era, in ms. A client may wait for it. */
const PROBE_TIMEOUT_MS = 3_000;
const FALL_BACK_STATUSES = new Set([400, 404, 405]);
/** Statuses that say nothing of what the server speaks. */
const UNDECIDED_STATUSES = new Set([401, 403, 429]);

export class Upstream {
  /** The paths to which a server of HTTP+SSE wants messages posted. */
  readonly messagePaths: MessagePaths;
  readonly detector: BroadcastDetector;
  readonly #askingStyle = new AskingStyleDetector();
  readonly #broadcastProbe: BroadcastProbe;
  /** Sessions over HTTP+SSE. Dead ones are removed when the next one is opened. */
  #httpSseSessions: readonly Session[] = [];
  #openingHttpSse = 0;
  readonly #options: UpstreamOptions;
  readonly #http: HttpClient;
  readonly #clock: Clock;
  /** The transport that the operator configured. */
  readonly #configured: LegacyTransport | null;
  /** The transport that a response of the server has shown. */
  #greeted: UpstreamKind | null = null;
  #greeting: { readonly headers: string; readonly kind: Promise<UpstreamKind> } | null = null;
  #initialized: InitializeResult | null = null;

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
    this.#clock = clock;
    this.#configured = options.transport === 'auto' ? null : options.transport;
  }

  /** The revision that the server chose last, if known. */
  get revision(): LegacyRevision | null {
    return this.#initialized?.protocolVersion ?? null;
  }

  /** Where the server was seen to ask. The one stream of HTTP+SSE names no call. */
  get askingStyle(): AskingStyle {
    return this.knownKind === 'http-sse' ? 'unrelated' : this.#askingStyle.style;
  }

  /** What the server speaks, if it is configured or known from a response. */
  get knownKind(): UpstreamKind | null {
    return this.#greeted ?? this.#configured;
  }

  /** What the server speaks, if it is known from a response. */
  get greetedKind(): UpstreamKind | null {
    return this.#greeted;
  }

  /**
   * Returns what the server speaks, and asks it if that is not known.
   * @throws UpstreamFailure if it cannot be found out
   */
  async detect(headers: CallerHeaders): Promise<UpstreamKind> {
    return this.knownKind ?? this.greet(headers);
  }

  /**
   * Finds out from a response what the server speaks: modern if it replies to `server/discover`,
   * Streamable HTTP if it accepts `initialize`, HTTP+SSE if a GET opens a stream that names an endpoint
   * (streamable-http, "Backward Compatibility"). A configured transport has to accept `initialize`.
   * Refused credentials decide nothing.
   * @throws UpstreamFailure if the server does not respond, or it cannot be found out
   */
  async greet(headers: CallerHeaders): Promise<UpstreamKind> {
    if (this.#greeted !== null) return this.#greeted;
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

  /** Opens a session for a client with this profile. Throws UpstreamFailure. */
  async openSession(request: SessionRequest): Promise<Session> {
    const kind = await this.detect(request.headers);
    if (kind === 'modern') {
      throw new UpstreamFailure('upstream_protocol_error', 'the server already speaks 2026-07-28', {
        mayHaveActed: false,
      });
    }
    const open = () => this.#open(kind, request);
    const session = kind === 'http-sse' ? await this.#openHttpSse(open) : await open();
    this.#options.onSession?.(session, kind);
    return session;
  }

  /**
   * Takes over a session that another process opened, or that was left. Throws UpstreamFailure if the transport
   * cannot do that.
   */
  async adoptSession(
    request: SessionRequest,
    { sessionId, revision }: Pick<StreamPoint, 'sessionId' | 'revision'>,
  ): Promise<Session> {
    const kind = await this.detect(request.headers);
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

  /**
   * Opens a session over HTTP+SSE. If there are others, a probe shows first whether the server broadcasts,
   * before a message can reach the wrong caller.
   */
  async #openHttpSse(open: () => Promise<Session>): Promise<Session> {
    const { detector } = this;
    this.#httpSseSessions = this.#httpSseSessions.filter((session) => !session.dead);
    const others = this.#httpSseSessions.length + this.#openingHttpSse;
    const mayBeSeenElsewhere = others > 0 || detector.hasSiblings;
    this.#openingHttpSse += 1;
    try {
      if (mayBeSeenElsewhere && !detector.broadcasts) await this.#broadcastProbe.open(open);
      const session = await open();
      this.#httpSseSessions = [...this.#httpSseSessions, session];
      await this.#broadcastProbe.checkReplies();
      return session;
    } finally {
      this.#openingHttpSse -= 1;
    }
  }

  async #greet(headers: CallerHeaders): Promise<UpstreamKind> {
    if (this.#configured !== null) return this.#greetOver(this.#configured, headers);
    const modern = await this.#answersDiscover(headers).catch((error: unknown) => {
      const failure = asUpstreamFailure(error, false);
      // Some servers do not reply to a method that they do not know.
      if (failure.code === 'upstream_timeout') return false;
      throw failure;
    });
    if (!modern) return this.#detectLegacy(headers);
    this.#greeted = 'modern';
    return 'modern';
  }

  async #detectLegacy(headers: CallerHeaders): Promise<LegacyTransport> {
    try {
      return await this.#greetOver('streamable-http', headers);
    } catch (error) {
      const failure = asUpstreamFailure(error, false);
      if (!FALL_BACK_STATUSES.has(failure.details.httpStatus ?? 0)) throw failure;
    }
    return this.#greetOver('http-sse', headers);
  }

  async #greetOver(kind: LegacyTransport, headers: CallerHeaders): Promise<LegacyTransport> {
    const session = await this.#open(kind, { profile: EMPTY_PROFILE, clientInfo: null, headers });
    await session.close();
    return kind;
  }

  async #open(kind: LegacyTransport, request: SessionRequest): Promise<Session> {
    const options = this.#sessionOptions(request);
    const session = await Session.open(this.#connect(kind), options, this.#clock);
    this.#initialized = session.initializeResult;
    this.#greeted = kind;
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

  async #answersDiscover(headers: CallerHeaders): Promise<boolean> {
    const probe = {
      jsonrpc: '2.0',
      id: 'mrtr-gateway-probe',
      method: 'server/discover',
      params: {
        _meta: {
          [Meta.protocolVersion]: MODERN_REVISION,
          [Meta.clientInfo]: { ...this.#options.gatewayInfo },
          [Meta.clientCapabilities]: {},
        },
      },
    };
    const reader = new MessageReader(
      () => true,
      () => exchange.end(),
    );
    const exchange = this.#http.send(
      {
        method: 'POST',
        headers: {
          ...headers,
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          'mcp-protocol-version': MODERN_REVISION,
          'mcp-method': 'server/discover',
        },
        body: JSON.stringify(probe),
        headersTimeoutMs: PROBE_TIMEOUT_MS,
      },
      reader,
    );
    // By the system's clock, as the timeouts of the HTTP client: the wait is for a socket.
    const timer = systemClock.setTimer(PROBE_TIMEOUT_MS, () => exchange.fail(noDiscoverReply()));
    try {
      const [first] = (await reader.done).messages;
      return first !== undefined && isModernReply(first);
    } catch (error) {
      const { httpStatus = 0, rpcError } = asUpstreamFailure(error, false).details;
      if (rpcError !== undefined) return MODERN_ERRORS.includes(rpcError.code);
      if (httpStatus >= 400 && httpStatus < 500 && !UNDECIDED_STATUSES.has(httpStatus))
        return false;
      // A response that breaks off is not one to `server/discover`.
      if (reader.responseHead !== null) return false;
      throw error;
    } finally {
      timer.cancel();
    }
  }
}

function noDiscoverReply(): UpstreamFailure {
  const problem = `no reply to server/discover within ${PROBE_TIMEOUT_MS} ms`;
  return new UpstreamFailure('upstream_timeout', problem, { mayHaveActed: false });
}

const MODERN_ERRORS: readonly number[] = [
  ErrorCode.headerMismatch,
  ErrorCode.missingRequiredClientCapability,
  ErrorCode.unsupportedProtocolVersion,
];

function isModernReply(value: JsonValue): boolean {
  const message = readMessage(value);
  if (message.type !== 'response') return false;
  if ('error' in message.reply) return MODERN_ERRORS.includes(message.reply.error.code);
  const { supportedVersions } = message.reply.result;
  return (
    isJsonObject(message.reply.result) &&
    Array.isArray(supportedVersions) &&
    supportedVersions.includes(MODERN_REVISION)
  );
}
