/** A legacy server behind a route, however it is reached: what it is created with, what it is asked for, and what it was told. */
import type { JsonObject } from '../protocol/json.ts';
import type { LegacyRevision } from '../protocol/meta.ts';
import type { ClientProfile } from '../protocol/translate/client-profile.ts';
import type { AskingStyle, BroadcastDetector } from './discovery/broadcast-detector.ts';
import type { LegacyTransport, UpstreamKind } from './discovery/detection.ts';
import type { HttpClientOptions } from './http/client.ts';
import type { InitializeResult } from './session/handshake.ts';
import type { RootsHabit } from './session/caller-roots.ts';
import type { IncomingOptions } from './session/incoming.ts';
import type { Session } from './session/session.ts';
import type { TransportTraits } from './transport/traits.ts';
import type { CallerHeaders, SessionPoint } from './transport/transport.ts';

/** `modern-stdio`: one over stdio that speaks 2026-07-28 only. */
export type ServerKind = UpstreamKind | 'stdio' | 'modern-stdio';

/** `Upstream` is one over HTTP, `StdioUpstream` one over stdio. */
export interface LegacyServer {
  readonly detector: BroadcastDetector;
  /** The revision that the server chose last, if known. */
  readonly revision: LegacyRevision | null;
  /** Whether the server can have one session only, over all callers. */
  readonly hasOneSession: boolean;
  /** Where the server was seen to ask. */
  readonly askingStyle: AskingStyle;
  /** Whether a resumed stream was seen to deliver a reply at once, and nothing has failed since. */
  readonly deliversResumed: boolean;
  /** What the server speaks, if it is configured or known from a response. */
  readonly knownKind: ServerKind | null;
  /** What its transport can do; `null` for a modern one, and while nothing is known. */
  readonly traits: TransportTraits | null;
  /** What the server speaks, if it is known from a response. */
  readonly greetedKind: ServerKind | null;
  /** Whether a `requestState` can be one that the server issued itself, to a client that was passed through. */
  readonly mayIssueStates: boolean;
  /** Has the next request find out again what the server speaks. @returns false if that is not done */
  doubt(): boolean;
  /** Returns what the server speaks, and asks it if that is not known. Throws UpstreamFailure. */
  detect(headers: CallerHeaders): Promise<ServerKind>;
  /** Asks a server that has not said whether it is modern again, if it is time to. Nothing waits for that. */
  askAgain(headers: CallerHeaders): void;
  /** Finds out from a response what the server speaks. Throws UpstreamFailure. */
  greet(headers: CallerHeaders): Promise<ServerKind>;
  /**
   * Waits for a greeting that is on its way. Resolves to the last one, or to `null` if there is none or the server is modern.
   * Never rejects.
   */
  lastGreeting(): Promise<Greeting | null>;
  /** Opens a session for a client. Throws UpstreamFailure. */
  openSession(request: SessionRequest): Promise<Session>;
  /** Takes over a session that another process opened, or that was left. Throws UpstreamFailure. */
  resumeSession(request: SessionRequest, point: SessionPoint): Promise<Session>;
  /** Frees everything, and ends what the gateway runs. */
  close(): Promise<void>;
}

export interface SessionCapacityOptions {
  /** Whether the limits of the operator allow no second session. */
  readonly hasOneSession?: boolean;
  /**
   * Waits until no caller has the only session of the server.
   * @returns a function that leaves it to others
   */
  readonly reserveOnlySession?: () => Promise<() => void>;
}

/** What a server is created with, however it is reached. */
export interface ServerOptions
  extends
    SessionCapacityOptions,
    Pick<HttpClientOptions, 'headersTimeoutMs' | 'maxEventBytes' | 'holdBytes'>,
    Pick<IncomingOptions, 'onChange' | 'log'> {
  readonly pingIntervalMs: number;
  /** How the server takes the roots of its callers; absent if it does not learn them. */
  readonly rootsHabit?: RootsHabit | undefined;
  /** The `clientInfo` for clients that gave none. */
  readonly gatewayInfo: { readonly name: string; readonly version: string };
  /** Called with what the server says of itself to the gateway, which has no credentials of a caller. */
  readonly onGreeted?: (greeting: Greeting) => void;
}

export interface UpstreamOptions extends ServerOptions, HttpClientOptions {
  readonly era: 'auto' | 'legacy' | 'modern';
  readonly transport: 'auto' | LegacyTransport;
  readonly statefulWithoutSessionId: boolean;
  /** Returns a number from 0 up to 1. */
  readonly random: () => number;
  /** Whether other replicas may use the server at the same time. */
  readonly hasSiblings?: boolean;
}

/** What a server said of itself to a client that declares nothing. */
export interface Greeting {
  /** The headers of the caller, as JSON. */
  readonly headers: string;
  readonly initialized: InitializeResult;
  /** Whether it offered a standalone stream. */
  readonly hasStream: boolean;
}

/** The headers of the gateway's own greetings. */
export const OWN_HEADERS = '{}';

export interface SessionRequest {
  readonly profile: ClientProfile;
  /** The `clientInfo` of the client. Some servers behave differently for different clients. */
  readonly clientInfo: JsonObject | null;
  readonly headers: CallerHeaders;
  /** A text that is equal for the same principal only; absent for the gateway itself. */
  readonly principalKey?: string;
}
