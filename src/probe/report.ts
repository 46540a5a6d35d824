/** The report of a probe, as `--json` prints it. Members can be added; their names do not change. */
import type { JsonObject } from '../protocol/json.ts';

export interface ProbeReport {
  /** Increases if a member changes its meaning. */
  readonly format: 1;
  /** Without user name, password and query, which can be credentials. */
  readonly url: string;
  /** True if the server speaks 2026-07-28 itself. */
  readonly modern: boolean;
  readonly transport: 'streamable-http' | 'http-sse';
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
  readonly tools: Listing<ToolEntry>;
  readonly prompts: Listing<Entry>;
  readonly resources: Listing<ResourceEntry>;
  readonly resourceTemplates: Listing<ResourceEntry>;
  readonly advice: Advice;
}

/** How to configure the gateway for the server. */
export interface Advice {
  /** False for a server that speaks 2026-07-28 itself. */
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
  /** `stream`: the one event stream of HTTP+SSE is the session. */
  readonly kind: 'session-id' | 'stream' | 'none';
  /** The result of a ping without the session id. */
  readonly withoutId: 'refused' | 'accepted' | 'no-answer' | 'not-tried';
  /** The HTTP status of the DELETE of the session; `null` if none was sent, or there was no response. */
  readonly deleteStatus: number | null;
}

export interface StandaloneStreamReport {
  /** `built-in`: HTTP+SSE has one stream, which carries everything. */
  readonly offered: 'yes' | 'no' | 'no-answer' | 'built-in' | 'not-tried';
  /** The HTTP status of the GET; `null` if there was no response. */
  readonly httpStatus: number | null;
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

export interface Listing<Item> {
  /** Whether the server declares the capability. Otherwise the list is not requested. */
  readonly declared: boolean;
  readonly items: readonly Item[];
  /** True if the server has more items. */
  readonly truncated: boolean;
  /** Why the list could not be read in full; `null` if it was. */
  readonly problem: string | null;
}

export interface Entry {
  readonly name: string;
  /** The first line. */
  readonly description: string | null;
}

export interface ResourceEntry extends Entry {
  /** The URI, or the URI template. */
  readonly uri: string;
}

export interface ToolEntry extends Entry {
  /** The hints of its annotations. They are claims of the server. */
  readonly readOnly: boolean;
  readonly idempotent: boolean;
}
