/**
 * The content of a `requestState`: which call of which replica it continues, for which caller and request;
 * and its claims inside the seal. They are read strictly: a pointer of an unknown version is refused.
 */
import { z } from 'zod';
import {
  callId,
  inputKey,
  serverRequestId,
  sessionId,
  upstreamRequestId,
  type CallId,
  type InputKey,
  type ServerRequestId,
  type SessionId,
  type UpstreamRequestId,
} from '../protocol/ids.ts';
import type { AnswerTranslation, InputRequest } from '../protocol/translate/input-request.ts';
import type { JsonRpcReply } from '../protocol/json-rpc.ts';
import { jsonNumber, jsonObject, jsonValue } from '../protocol/json.ts';
import { LEGACY_REVISIONS, type LegacyRevision } from '../protocol/meta.ts';

/** Points to a call that is parked in the process of one replica. */
export interface Pointer {
  /** The deployment whose replicas accept it. */
  readonly audience: string;
  /** The id of the route that the call came in on. */
  readonly route: string;
  readonly callId: CallId;
  /** The number of the `InputRequiredResult` that carries it, counted from 1. */
  readonly round: number;
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

/** The replica that holds the call. `boot` differs after each restart. */
export interface PointerOwner {
  readonly id: string;
  readonly boot: string;
  readonly address?: string;
}

const text = z.string().min(1);

const propertyInverse = z.strictObject({
  nullWhenMissing: z.boolean(),
  value: z.discriminatedUnion('type', [
    z.strictObject({ type: z.literal('same') }),
    z.strictObject({ type: z.literal('constant'), value: jsonValue }),
    z.strictObject({ type: z.literal('number'), choices: z.array(jsonNumber) }),
    z.strictObject({ type: z.literal('list') }),
  ]),
});

const answerTranslation = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('elicitation-form'),
    inverse: z.array(z.tuple([z.string(), propertyInverse])),
  }),
  z.strictObject({ kind: z.literal('elicitation-url') }),
  z.strictObject({
    kind: z.literal('sampling'),
    blocks: z.enum(['many', 'one', 'oneWithoutAudio']),
  }),
  z.strictObject({ kind: z.literal('roots') }),
]);

const reply = z.union([
  z.strictObject({ result: jsonObject }),
  z.strictObject({
    error: z.strictObject({
      code: z.number(),
      message: z.string(),
      data: z.exactOptional(jsonValue),
    }),
  }),
]);

/** What the client was asked. */
const inputRequests = z.array(z.strictObject({ method: text, params: jsonObject }));

const upstreamId = z.union([z.string(), z.number()]);
const streamClaims = z.strictObject({
  id: text,
  v: z.enum(LEGACY_REVISIONS),
  i: upstreamId,
  e: z.string(),
  o: z.exactOptional(z.array(upstreamId)),
});
/** Since version 3: the session of a call that runs as a task. */
const taskClaims = z.union([
  streamClaims.extend({ t: z.strictObject({ id: text.nullable(), p: upstreamId }) }),
  streamClaims.extend({ e: z.null(), t: z.strictObject({ id: text, p: upstreamId }) }),
]);

const continuationClaims = z.strictObject({
  b: z.number(),
  q: z.array(
    z.strictObject({
      k: text,
      i: z.union([z.string(), z.number()]).nullable(),
      /** In version 1. Version 2 keeps the requests beside the claims, since they can be compressed. */
      r: z.exactOptional(inputRequests.element),
      b: answerTranslation,
    }),
  ),
  n: z.strictObject({ a: z.int().min(0), c: z.record(z.string(), z.int().min(0)) }),
  s: z.union([streamClaims, taskClaims]).nullable(),
  a: z.array(z.strictObject({ q: text, r: reply })).nullable(),
});

const pointerClaims = z.strictObject({
  /** Only a call that runs as a task is written as version 3: older replicas can read all others. */
  v: z.literal([1, 2, 3]),
  /** The only mode so far. It is written, so that another one can be added and refused by older replicas. */
  mode: z.literal('park'),
  aud: text,
  rt: text,
  c: text,
  n: z.int().min(1),
  o: z.strictObject({ id: text, boot: text, addr: z.exactOptional(text) }),
  iat: z.number(),
  exp: z.number(),
  p: text.nullable(),
  m: text,
  t: z.string(),
  d: text,
  k: z.exactOptional(text),
  tp: z.exactOptional(text),
  cont: z.exactOptional(continuationClaims),
});

export type PointerClaims = z.infer<typeof pointerClaims>;

/** A pointer in its written form. */
export interface WrittenPointer {
  readonly claims: PointerClaims;
  /** The requests of the open questions, in their order: what the client is shown. */
  readonly requests: readonly InputRequest[];
}

/** Writes a pointer. @returns `null` if `readPointer` would refuse it */
export function writePointer(pointer: Pointer): WrittenPointer | null {
  const { id, boot, address } = pointer.owner;
  const isTask = (pointer.continuation?.resume?.task ?? null) !== null;
  const claims = pointerClaims.safeParse({
    v: isTask ? 3 : 2,
    mode: 'park',
    aud: pointer.audience,
    rt: pointer.route,
    c: pointer.callId,
    n: pointer.round,
    o: address === undefined ? { id, boot } : { id, boot, addr: address },
    iat: pointer.issuedAtSeconds,
    exp: pointer.expiresAtSeconds,
    p: pointer.principal,
    m: pointer.method,
    t: pointer.target,
    d: pointer.digest,
    ...(pointer.outcomeKey === undefined ? {} : { k: pointer.outcomeKey }),
    ...(pointer.firstTrace === undefined ? {} : { tp: pointer.firstTrace }),
    ...(pointer.continuation === undefined
      ? {}
      : { cont: writeContinuation(pointer.continuation) }),
  });
  const requests = (pointer.continuation?.questions ?? []).map(({ request }) => request);
  const isValid = claims.success && inputRequests.safeParse(requests).success;
  return isValid ? { claims: claims.data, requests } : null;
}

/**
 * Reads a pointer from any parsed values.
 * @param value the claims
 * @param requests the requests beside the claims, in version 2
 * @returns `null` if anything is missing, invalid or unknown
 */
export function readPointer(value: unknown, requests: unknown = []): Pointer | null {
  const parsed = pointerClaims.safeParse(value);
  const beside = inputRequests.safeParse(requests);
  if (!parsed.success || !beside.success) return null;
  const { o: owner, ...claims } = parsed.data;
  const session = claims.cont?.s ?? null;
  if ((session !== null && 't' in session) !== (claims.v === 3)) return null;
  const questions = claims.cont?.q ?? [];
  const within = questions.flatMap(({ r }) => (r === undefined ? [] : [r]));
  const [shown, others] = claims.v === 1 ? [within, beside.data] : [beside.data, within];
  if (shown.length !== questions.length || others.length > 0) return null;
  return {
    audience: claims.aud,
    route: claims.rt,
    callId: callId(claims.c),
    round: claims.n,
    owner: {
      id: owner.id,
      boot: owner.boot,
      ...(owner.addr === undefined ? {} : { address: owner.addr }),
    },
    issuedAtSeconds: claims.iat,
    expiresAtSeconds: claims.exp,
    principal: claims.p,
    method: claims.m,
    target: claims.t,
    digest: claims.d,
    ...(claims.k === undefined ? {} : { outcomeKey: claims.k }),
    ...(claims.tp === undefined ? {} : { firstTrace: claims.tp }),
    ...(claims.cont === undefined ? {} : { continuation: readContinuation(claims.cont, shown) }),
  };
}

function writeContinuation(continuation: Continuation) {
  const { startedAtMs, questions, keys, resume, replay } = continuation;
  return {
    b: startedAtMs,
    q: questions.map(({ key, id, back }) => ({
      k: key,
      i: id,
      b: back.kind === 'elicitation-form' ? { ...back, inverse: [...back.inverse] } : back,
    })),
    n: { a: keys.asked, c: keys.counts },
    s: resume === null ? null : writeResumePoint(resume),
    a: replay?.map(({ question, reply }) => ({ q: question, r: reply })) ?? null,
  };
}

type SessionClaims = z.infer<typeof streamClaims> | z.infer<typeof taskClaims>;

function writeResumePoint({
  sessionId,
  revision,
  upstreamId,
  beside,
  lastEventId,
  task,
}: ResumePoint) {
  const session = { id: sessionId, v: revision, i: upstreamId, e: lastEventId };
  const others = beside === undefined ? {} : { o: beside };
  return { ...session, ...others, ...(task && { t: { id: task.taskId, p: task.progressToken } }) };
}

function readResumePoint(claims: SessionClaims): ResumePoint {
  const request = {
    sessionId: sessionId(claims.id),
    revision: claims.v,
    upstreamId: upstreamRequestId(claims.i),
    ...(claims.o === undefined ? {} : { beside: claims.o.map(upstreamRequestId) }),
  };
  if (!('t' in claims)) return { ...request, lastEventId: claims.e, task: null };
  const progressToken = upstreamRequestId(claims.t.p);
  return claims.e === null
    ? { ...request, lastEventId: null, task: { taskId: claims.t.id, progressToken } }
    : { ...request, lastEventId: claims.e, task: { taskId: claims.t.id, progressToken } };
}

function readContinuation(
  claims: z.infer<typeof continuationClaims>,
  requests: readonly InputRequest[],
): Continuation {
  const { b: startedAtMs, q: questions, n: keys, s: resume, a: replay } = claims;
  return {
    startedAtMs,
    questions: questions.map(({ k, i, b }, index) => ({
      key: inputKey(k),
      id: i === null ? null : serverRequestId(i),
      request: requests[index] as InputRequest,
      back: b.kind === 'elicitation-form' ? { kind: b.kind, inverse: new Map(b.inverse) } : b,
    })),
    keys: { asked: keys.a, counts: keys.c },
    resume: resume === null ? null : readResumePoint(resume),
    replay: replay?.map(({ q, r }) => ({ question: q, reply: r })) ?? null,
  };
}
