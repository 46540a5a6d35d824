/** A pointer in its written form: short names, a version, and no member that the version does not have. */
import {
  either,
  isBoolean,
  isCount,
  isFiniteNumber,
  isNonEmptyText,
  isText,
  listOf,
  objectOf,
  oneOf,
  recordOf,
  type ShapeGuard,
  type Guarded,
} from './claim-guards.ts';
import type {
  CallId,
  InputKey,
  ServerRequestId,
  SessionId,
  UpstreamRequestId,
} from '../protocol/ids.ts';
import { isJsonNumber, isJsonObject, type JsonValue } from '../protocol/json.ts';
import type { JsonRpcReply } from '../protocol/json-rpc.ts';
import { LEGACY_REVISIONS } from '../protocol/meta.ts';
import type { InputRequest } from '../protocol/translate/input-request.ts';
import type { Continuation, Pointer, ResumePoint } from './pointer.ts';

/**
 * The versions that are read. Whoever changes what is written adds one: another build refuses what it does not know
 * (docs/upgrading.md). The second one has forms of OpenAI's extension, and the third one rounds without a question. A pointer is
 * written in the first version that can say all of it, since builds that know no later one read that.
 */
export const POINTER_VERSIONS: readonly unknown[] = [1, 2, 3];

const isNull = oneOf(null);
const isJson = (value: unknown): value is JsonValue => value !== undefined;
const isId = either(isText, isFiniteNumber);
const isUpstreamId = isId as ShapeGuard<UpstreamRequestId>;

const isPropertyInverse = objectOf({
  nullWhenMissing: isBoolean,
  value: either(
    objectOf({ type: oneOf('same', 'list') }),
    objectOf({ type: oneOf('constant'), value: isJson }),
    objectOf({ type: oneOf('number'), choices: listOf(isJsonNumber) }),
  ),
});
const isInverse = (value: unknown): value is [string, Guarded<typeof isPropertyInverse>] =>
  Array.isArray(value) && value.length === 2 && isText(value[0]) && isPropertyInverse(value[1]);

const isAnswerTranslation = either(
  objectOf({ kind: oneOf('elicitation-form'), inverse: listOf(isInverse) }),
  objectOf({ kind: oneOf('elicitation-url', 'openai-form', 'roots') }),
  objectOf({ kind: oneOf('sampling'), blocks: oneOf('many', 'one', 'oneWithoutAudio') }),
);

const isReply = either(
  objectOf({ result: isJsonObject }),
  objectOf({ error: objectOf({ code: isFiniteNumber, message: isText }, { data: isJson }) }),
) as ShapeGuard<JsonRpcReply>;

/** What the client was asked. */
const areInputRequests: ShapeGuard<readonly InputRequest[]> = listOf(
  objectOf({ method: isNonEmptyText, params: isJsonObject }),
);

const session = {
  id: isNonEmptyText as ShapeGuard<SessionId>,
  v: oneOf(...LEGACY_REVISIONS),
  i: isUpstreamId,
};
const besides = { o: listOf(isUpstreamId), h: isNonEmptyText };
const isStream = objectOf({ ...session, e: isText }, besides);
/** The session of a call that runs as a task. */
const isTask = either(
  objectOf(
    { ...session, e: isText, t: objectOf({ id: either(isNonEmptyText, isNull), p: isUpstreamId }) },
    besides,
  ),
  objectOf(
    { ...session, e: isNull, t: objectOf({ id: isNonEmptyText, p: isUpstreamId }) },
    besides,
  ),
);

const isContinuation = objectOf({
  b: isFiniteNumber,
  q: listOf(
    objectOf({
      k: isNonEmptyText as ShapeGuard<InputKey>,
      i: either(isId as ShapeGuard<ServerRequestId>, isNull),
      b: isAnswerTranslation,
    }),
  ),
  n: objectOf({ a: isCount, c: recordOf(isCount) }),
  s: either(isStream, isTask, isNull),
  a: either(listOf(objectOf({ q: isNonEmptyText, r: isReply })), isNull),
});

const isNumber = (value: unknown): value is number => isCount(value) && value > 0;
const members = {
  aud: isNonEmptyText,
  rt: isNonEmptyText,
  c: isNonEmptyText as ShapeGuard<CallId>,
  n: isNumber,
  o: objectOf({ id: isNonEmptyText, instance: isNonEmptyText }, { addr: isNonEmptyText }),
  iat: isFiniteNumber,
  exp: isFiniteNumber,
  p: either(isNonEmptyText, isNull),
  m: isNonEmptyText,
  t: isText,
  d: isNonEmptyText,
};
const options = {
  k: isNonEmptyText,
  tp: isNonEmptyText,
  cont: isContinuation,
  /** The requests of the open questions, unless they stand beside the claims. */
  r: areInputRequests,
};
const isPointerClaims = either(
  objectOf({ v: oneOf(1, 2), ...members }, options),
  /** The call had this many rounds without a question. */
  objectOf({ v: oneOf(3), w: isNumber, ...members }, options),
);

type PointerClaims = Guarded<typeof isPointerClaims>;
type ContinuationClaims = Guarded<typeof isContinuation>;
type SessionClaims = NonNullable<ContinuationClaims['s']>;

/** A pointer in its written form. */
export interface WrittenPointer {
  readonly claims: PointerClaims;
  /** The requests of the open questions, in their order: what the client is shown. */
  readonly requests: readonly InputRequest[];
}

/** Writes a pointer. @returns `null` if `readPointer` would refuse it */
export function writePointer(pointer: Pointer): WrittenPointer | null {
  const { id, instance, address } = pointer.owner;
  const { stateOnly, continuation, outcomeKey, firstTrace } = pointer;
  const questions = continuation?.questions ?? [];
  const requests = questions.map(({ request }) => request);
  const first = questions.some(({ back }) => back.kind === 'openai-form') ? 2 : 1;
  const claims: PointerClaims = {
    ...(stateOnly === undefined ? { v: first } : { v: 3, w: stateOnly }),
    aud: pointer.audience,
    rt: pointer.route,
    c: pointer.callId,
    n: pointer.round,
    o: address === undefined ? { id, instance } : { id, instance, addr: address },
    iat: pointer.issuedAtSeconds,
    exp: pointer.expiresAtSeconds,
    p: pointer.principal,
    m: pointer.method,
    t: pointer.target,
    d: pointer.digest,
    ...(outcomeKey === undefined ? {} : { k: outcomeKey }),
    ...(firstTrace === undefined ? {} : { tp: firstTrace }),
    ...(continuation === undefined ? {} : { cont: writeContinuation(continuation) }),
  };
  return isPointerClaims(claims) && areInputRequests(requests) ? { claims, requests } : null;
}

/**
 * Reads a pointer from any parsed values.
 * @param beside the requests, if they are not among the claims
 * @returns `null` if anything is missing, invalid or unknown
 */
export function readPointer(claims: unknown, beside?: unknown): Pointer | null {
  if (!isPointerClaims(claims)) return null;
  const { o: owner, k: outcomeKey, tp: firstTrace, cont, r: within } = claims;
  if (beside !== undefined && within !== undefined) return null;
  const requests = beside ?? within ?? [];
  if (!areInputRequests(requests) || requests.length !== (cont?.q.length ?? 0)) return null;
  return {
    audience: claims.aud,
    route: claims.rt,
    callId: claims.c,
    round: claims.n,
    ...(claims.v === 3 ? { stateOnly: claims.w } : {}),
    owner: {
      id: owner.id,
      instance: owner.instance,
      ...(owner.addr === undefined ? {} : { address: owner.addr }),
    },
    issuedAtSeconds: claims.iat,
    expiresAtSeconds: claims.exp,
    principal: claims.p,
    method: claims.m,
    target: claims.t,
    digest: claims.d,
    ...(outcomeKey === undefined ? {} : { outcomeKey }),
    ...(firstTrace === undefined ? {} : { firstTrace }),
    ...(cont === undefined ? {} : { continuation: readContinuation(cont, requests) }),
  };
}

function writeContinuation(continuation: Continuation): ContinuationClaims {
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

function readContinuation(
  { b: startedAtMs, q: questions, n: keys, s: resume, a: replay }: ContinuationClaims,
  requests: readonly InputRequest[],
): Continuation {
  return {
    startedAtMs,
    questions: questions.map(({ k: key, i: id, b }, index) => ({
      key,
      id,
      request: requests[index]!,
      back: b.kind === 'elicitation-form' ? { kind: b.kind, inverse: new Map(b.inverse) } : b,
    })),
    keys: { asked: keys.a, counts: keys.c },
    resume: resume === null ? null : readResumePoint(resume),
    replay: replay?.map(({ q, r }) => ({ question: q, reply: r })) ?? null,
  };
}

function writeResumePoint(point: ResumePoint): SessionClaims {
  const { sessionId: id, revision: v, upstreamId: i, beside: o, home: h } = point;
  const session = { id, v, i, ...(o && { o }), ...(h !== undefined && { h }) };
  const { lastEventId: e, task } = point;
  const t = task && { id: task.taskId, p: task.progressToken };
  return { ...session, e, ...(t && { t }) } as SessionClaims;
}

function readResumePoint(claims: SessionClaims): ResumePoint {
  const request = {
    sessionId: claims.id,
    revision: claims.v,
    upstreamId: claims.i,
    ...(claims.o === undefined ? {} : { beside: claims.o }),
    ...(claims.h === undefined ? {} : { home: claims.h }),
  };
  if (!('t' in claims)) return { ...request, lastEventId: claims.e, task: null };
  const { id: taskId, p: progressToken } = claims.t;
  return { ...request, lastEventId: claims.e, task: { taskId, progressToken } } as ResumePoint;
}
