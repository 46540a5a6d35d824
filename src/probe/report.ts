/** What a probe found out. These members are what `--json` prints: they may grow, and keep their names. */
import type { JsonObject } from '../protocol/json/json.ts';

export interface ProbeReport {
  /** Goes up when a member changes its meaning. */
  readonly format: 1;
  /** Without user name, password and query, which can hold credentials. */
  readonly url: string;
  /** True when the server speaks 2026-07-28 itself. */
  readonly modern: boolean;
  readonly transport: 'streamable-http' | 'http-sse';
  /** The revision that was negotiated. */
  readonly revision: string;
  /** What a modern server says it supports; `null` for a legacy one, which does not say. */
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

/** What to write into a configuration file, as `advise` concludes it from the findings. */
export interface Advice {
  /** False for a server that speaks 2026-07-28 itself. */
  readonly gatewayNeeded: boolean;
  /** What goes into a configuration file; `null` when no gateway is needed. */
  readonly config: JsonObject | null;
  /** Whether `parking.release: when-resumable` has an effect with this server. */
  readonly releaseWhenResumable: 'possible' | 'unproven' | 'impossible';
  /** Whether `upstream.statefulWithoutSessionId` is worth a thought. */
  readonly statefulWithoutSessionId: boolean;
  /** The tools that `continuation.replay.annotated` would make anew when their call is lost. */
  readonly annotatedTools: readonly string[];
  /** Sentences for people. */
  readonly notes: readonly string[];
}

/** A report before somebody drew conclusions from it. */
export type Findings = Omit<ProbeReport, 'advice'>;

export interface ServerName {
  readonly name: string | null;
  readonly title: string | null;
  readonly version: string | null;
}

export interface SessionsReport {
  /** `stream`: the one event stream of HTTP+SSE is the session. */
  readonly kind: 'session-id' | 'stream' | 'none';
  /** What became of a ping without the session id. */
  readonly withoutId: 'refused' | 'accepted' | 'no-answer' | 'not-tried';
  /** The status that the DELETE at the end was answered with; `null` when none was sent or answered. */
  readonly deleteStatus: number | null;
}

export interface StandaloneStreamReport {
  /** `built-in`: HTTP+SSE has one stream, which carries everything. */
  readonly offered: 'yes' | 'no' | 'no-answer' | 'built-in' | 'not-tried';
  /** The status of the answer to the GET, when there was one. */
  readonly httpStatus: number | null;
}

export interface ResumptionReport {
  /** `no-events`: the server answers with JSON, so there is no stream to resume. */
  readonly eventIds: 'seen' | 'not-seen' | 'no-events' | 'no-answer' | 'not-tried';
  /**
   * What became of a GET with `Last-Event-ID`. `replayed`: the missed response came again; `opened`:
   * there was a stream, and nothing on it that would prove more.
   */
  readonly lastEventId: 'replayed' | 'opened' | 'refused' | 'no-answer' | 'not-tried';
  readonly httpStatus: number | null;
}

export interface Listing<Item> {
  /** Whether the server declares the capability; it is not asked for what it does not declare. */
  readonly declared: boolean;
  readonly items: readonly Item[];
  /** True when the server had more than was read. */
  readonly truncated: boolean;
  /** Why the list is empty or ends early; `null` when it was read. */
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
  /** The hints of its annotations; unless the server is trusted, they are only claims. */
  readonly readOnly: boolean;
  readonly idempotent: boolean;
}
