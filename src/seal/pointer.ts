/** The content of a `requestState`: which call of which replica it continues, for which caller and request. */
import type {
  CallId,
  InputKey,
  ServerRequestId,
  SessionId,
  UpstreamRequestId,
} from '../protocol/ids.ts';
import type { AnswerTranslation, InputRequest } from '../protocol/translate/input-request.ts';
import type { JsonRpcReply } from '../protocol/json-rpc.ts';
import type { LegacyRevision } from '../protocol/meta.ts';

/** Points to a call that is parked in the process of one replica. */
export interface Pointer {
  /** The deployment whose replicas accept it. */
  readonly audience: string;
  /** The id of the route that the call came in on. */
  readonly route: string;
  readonly callId: CallId;
  /** The number of the `InputRequiredResult` that carries it, counted from 1. */
  readonly round: number;
  /** How many of the rounds so far, with this one, had no question; absent if none. */
  readonly stateOnly?: number;
  readonly owner: PointerOwner;
  /** Seconds since the epoch. */
  readonly issuedAtSeconds: number;
  /** Seconds since the epoch, with fractions. */
  readonly expiresAtSeconds: number;
  /** See `principalTag`; `null` for an anonymous caller. */
  readonly principal: string | null;
  readonly method: string;
  /** The tool or prompt name, or the resource URI. */
  readonly target: string;
  /** See `requestDigest`. */
  readonly digest: string;
  /** How the call continues without its owner; absent if it cannot. */
  readonly continuation?: Continuation;
  /** Opens the outcome if the owner left one in the shared store. */
  readonly outcomeKey?: string;
  /** The `traceparent` of the call's first request, to which the later ones are linked; absent without traces. */
  readonly firstTrace?: string;
}

/** The part of the owner's memory that another replica needs to continue the call. */
export interface Continuation {
  /** When the call began, in ms since the epoch. Its time limits count from here on any replica. */
  readonly startedAtMs: number;
  readonly questions: readonly SealedQuestion[];
  readonly keys: KeyCounters;
  /** Where the stream of the call can be resumed; `null` if it cannot. */
  readonly resume: ResumePoint | null;
  /** The answers so far; `null` if the call must not be replayed. */
  readonly replay: readonly AnsweredQuestion[] | null;
}

/** Counters of the keys under which clients see the questions of a call. */
export interface KeyCounters {
  /** How many questions the server asked so far. */
  readonly asked: number;
  /** The last number for each kind of question. */
  readonly counts: Readonly<Record<string, number>>;
}

/** Where the exchange of a call can be continued: after an event of its stream, or with the task that runs it. */
export type ResumePoint = ResumableRequest &
  (
    | { readonly lastEventId: string; readonly task: null }
    | { readonly lastEventId: string; readonly task: SealedTask }
    | { readonly lastEventId: null; readonly task: SealedTask & { readonly taskId: string } }
  );

interface ResumableRequest {
  readonly sessionId: SessionId;
  /** The home that has the session, by its key; absent if it is of no home. */
  readonly home?: string;
  readonly revision: LegacyRevision;
  /** The request whose stream is that of the call. */
  readonly upstreamId: UpstreamRequestId;
  /** Other calls that were in the session, and can ask on streams that name no call. Absent if there were none. */
  readonly beside?: readonly UpstreamRequestId[];
}

/** The legacy task as which the server runs the call; `taskId` is `null` while it creates the task. */
interface SealedTask {
  readonly taskId: string | null;
  readonly progressToken: UpstreamRequestId;
}

/** An open question, as the client sees it, and how its answer is translated back. */
export interface SealedQuestion {
  readonly key: InputKey;
  /** `null` if the server ended the call with this question (error -32042). */
  readonly id: ServerRequestId | null;
  readonly request: InputRequest;
  readonly back: AnswerTranslation;
}

/** An answer that the server has received, and its question. */
export interface AnsweredQuestion {
  /** See `questionDigest`. */
  readonly question: string;
  readonly reply: JsonRpcReply;
}

/** The replica that holds the call. `instance` differs after each restart. */
export interface PointerOwner {
  readonly id: string;
  readonly instance: string;
  readonly address?: string;
}
