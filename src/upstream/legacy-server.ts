/** A legacy server behind a route, however it is reached. `Upstream` is one over HTTP, `StdioUpstream` one over stdio. */
import type { LegacyRevision } from '../protocol/meta.ts';

import type { AskingStyle, BroadcastDetector } from './discovery/broadcast-detector.ts';
import type { Session } from './session/session.ts';
import type { CallerHeaders, StreamPoint } from './transport/transport.ts';
import type { UpstreamKind } from './discovery/detection.ts';
import type { SessionRequest } from './options.ts';

export type ServerKind = UpstreamKind | 'stdio';

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
  /** What the server speaks, if it is known from a response. */
  readonly greetedKind: ServerKind | null;
  /** Whether a `requestState` can be one that the server issued itself, to a client that was passed through. */
  readonly mayIssueStates: boolean;
  /** Has the next request find out again what the server speaks. @returns false if that is not done */
  doubt(): boolean;
  /** Returns what the server speaks, and asks it if that is not known. Throws UpstreamFailure. */
  detect(headers: CallerHeaders): Promise<ServerKind>;
  /** Finds out from a response what the server speaks. Throws UpstreamFailure. */
  greet(headers: CallerHeaders): Promise<ServerKind>;
  /** Opens a session for a client. Throws UpstreamFailure. */
  openSession(request: SessionRequest): Promise<Session>;
  /** Takes over a session that another process opened, or that was left. Throws UpstreamFailure. */
  adoptSession(
    request: SessionRequest,
    point: Pick<StreamPoint, 'sessionId' | 'revision'>,
  ): Promise<Session>;
  /** Frees everything, and ends what the gateway runs. */
  close(): Promise<void>;
}
