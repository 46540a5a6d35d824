/** The report of a probe, as `--json` prints it. Members can be added; their names do not change. */
import type { JsonObject } from '../protocol/json.ts';
import type { Listings } from '../upstream/discovery/listings.ts';
import type { Offering } from '../upstream/discovery/modern-side.ts';

export interface ProbeReport extends Listings {
  /** Increases if a member changes its meaning. */
  readonly format: 1;
  /** Without user name, password and query, which can be credentials. */
  readonly url: string | null;
  /** The command and the arguments of a server over stdio; `null` for one over HTTP. Just one of both is there. */
  readonly command: readonly string[] | null;
  /** True if the server speaks 2026-07-28 itself. */
  readonly modern: boolean;
  /** How far the clock of the server is ahead of that of this machine, in ms; `null` if it tells no time. */
  readonly clockAheadMs: number | null;
  /**
   * What `upstream.era: auto` does with the server. `bridged`: it takes a legacy handshake and keeps sessions, or
   * speaks nothing else; `passed-through`: only a modern client can use it fully. Over stdio requests pass to a process of their
   * caller.
   */
  readonly served: 'bridged' | 'passed-through';
  /** What only modern clients see of a bridged server that supports both protocol versions. */
  readonly onlyModern: readonly Offering[];
  readonly transport: 'streamable-http' | 'http-sse' | 'stdio';
  /** The revision that was negotiated. */
  readonly revision: string;
  /** The revisions that a modern server declares; `null` for a legacy server, which declares none. */
  readonly supportedRevisions: readonly string[] | null;
  readonly server: ServerName;
  /** As the server declared them. */
  readonly capabilities: JsonObject;
  readonly sessions: SessionsReport;
  readonly standaloneStream: StandaloneStreamReport;
  readonly resumption: ResumptionReport;
  /** What became of the call of `--call`; `null` without one. */
  readonly realCall: RealCallReport | null;
  readonly advice: Advice;
}

/** How to configure the gateway for the server. */
export interface Advice {
  /** False for a server over HTTP that is passed through. */
  readonly gatewayNeeded: boolean;
  /** A configuration file; `null` if no gateway is needed. */
  readonly config: JsonObject | null;
  /** Whether `parking.release: when-resumable` has an effect with this server. */
  readonly releaseWhenResumable: 'possible' | 'unproven' | 'impossible';
  /** Whether to consider `upstream.statefulWithoutSessionId`. */
  readonly statefulWithoutSessionId: boolean;
  /** The tools that `continuation.replay.annotated` would call again if their call is lost. */
  readonly annotatedTools: readonly string[];
  /** Sentences for people. */
  readonly notes: readonly string[];
}

/** A report without advice. */
export type Findings = Omit<ProbeReport, 'advice'>;

export interface ServerName {
  readonly name: string | null;
  readonly title: string | null;
  readonly version: string | null;
}

export interface SessionsReport {
  /** `stream`: the one event stream of HTTP+SSE is the session; `process`: the process over stdio is. */
  readonly kind: 'session-id' | 'stream' | 'process' | 'none';
  /** The result of a ping without the session id. */
  readonly withoutId: 'refused' | 'accepted' | 'no-answer' | 'not-tried';
  /** The HTTP status of the DELETE of the session; `null` if none was sent, or there was no response. */
  readonly deleteStatus: number | null;
  /** Whether the server takes a session beside another one. `broke`: the other one was lost then. */
  readonly second: 'accepted' | 'refused' | 'broke' | 'not-tried';
}

export interface StandaloneStreamReport {
  /** `built-in`: HTTP+SSE and stdio have one stream, which carries everything. */
  readonly offered: 'yes' | 'no' | 'no-answer' | 'built-in' | 'not-tried';
  /** The HTTP status of the GET; `null` if there was no response. */
  readonly httpStatus: number | null;
}

export interface RealCallReport {
  readonly tool: string;
  /**
   * `resumed`: the stream was left at the question, and the result came on the resumed one. `late`: it did not come there
   * within 3 s of the answer. `not-asked`: no question came on the stream of the call, or it had no event id. `tool-error`:
   * nothing was asked, and the result has `isError`. `held-back`: nothing came, not even the head of a response. `failed`: there
   * is no result.
   */
  readonly outcome: 'resumed' | 'late' | 'not-asked' | 'tool-error' | 'held-back' | 'failed';
  /** From the answer to the result, in ms. */
  readonly answerMs: number | null;
  /** What the server says about a call with `tool-error` or `failed`, in one short line; `null` if it says nothing. */
  readonly problem: string | null;
}

export interface ResumptionReport {
  /** `no-events`: the server responds with JSON, so that there is no stream to resume. */
  readonly eventIds: 'seen' | 'not-seen' | 'no-events' | 'no-answer' | 'not-tried';
  /**
   * The result of a GET with `Last-Event-ID`. `replayed`: the server replayed the missed reply; `opened`:
   * it opened a stream, but replayed nothing.
   */
  readonly lastEventId: 'replayed' | 'opened' | 'refused' | 'no-answer' | 'not-tried';
  readonly httpStatus: number | null;
}
