/**
 * What a `requestState` says once it is open: which call of which replica it continues, for whom, and
 * for which request. And its form inside the seal, which is read strictly: a replica that does not
 * know a version or mode refuses the pointer and does not guess.
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
import type { PropertyInverse } from '../protocol/translate/elicitation-schema.ts';
import type { AnswerTranslation, InputRequest } from '../protocol/translate/input-request.ts';
import type { JsonRpcReply } from '../protocol/json-rpc.ts';
import { jsonNumber, jsonObject, jsonValue } from '../protocol/json/form.ts';
import { LEGACY_REVISIONS, type LegacyRevision } from '../protocol/revisions.ts';

export type Pointer = ParkPointer;

/** A pointer to a call whose exchange waits in the process of one replica. */
export interface ParkPointer {
  readonly version: 1;
  readonly mode: 'park';
  /** The fleet whose replicas accept it. */
  readonly audience: string;
  /** The id of the route that the call came in on. */
  readonly route: string;
  readonly callId: CallId;
  /** The number of the `InputRequiredResult` that carries it; the first is 1. */
  readonly round: number;
  readonly owner: PointerOwner;
  /** Seconds since the epoch. */
  readonly issuedAtSeconds: number;
  /** Seconds since the epoch; fractions are kept. */
  readonly expiresAtSeconds: number;
  /** See `principalTag`; `null` when nobody is identified. */
  readonly principal: string | null;
  readonly method: string;
  /** The tool or prompt name, or the resource URI. */
  readonly target: string;
  /** See `requestDigest`. */
  readonly digest: string;
  /** How the call goes on when its owner is gone; absent where it cannot. */
  readonly continuation?: Continuation;
  /** What opens the outcome that the owner may have left in the shared store. */
  readonly outcomeKey?: string;
}

/** What the owner's memory holds of a call, as far as another replica needs it. */
export interface Continuation {
  /** When the call began, in ms since the epoch: its time runs on wherever it is taken up. */
  readonly startedAtMs: number;
  readonly questions: readonly SealedQuestion[];
  readonly keys: KeysGiven;
  /** Where the upstream keeps the call for whoever reads on, when it does. */
  readonly resume: ResumePoint | null;
  /** What was answered so far, where the call may be made anew. */
  readonly replay: readonly AnsweredQuestion[] | null;
}

/** How far the keys had come under which the questions of the call are shown. */
export interface KeysGiven {
  /** How many questions there were so far. */
  readonly asked: number;
  /** The last number that was given for each kind of question. */
  readonly counts: Readonly<Record<string, number>>;
}

export interface ResumePoint {
  readonly sessionId: SessionId;
  readonly revision: LegacyRevision;
  readonly upstreamId: UpstreamRequestId;
  /** The last event that the owner had read of the call's stream. */
  readonly lastEventId: string;
}

/** A question that is open, as it was shown and as its answer goes back. */
export interface SealedQuestion {
  readonly key: InputKey;
  /** `null` when the server had ended the call with it (error -32042). */
  readonly id: ServerRequestId | null;
  readonly request: InputRequest;
  readonly back: AnswerTranslation;
}

/** An answer that the server has had, and the question it was for. */
export interface AnsweredQuestion {
  /** See `questionDigest`. */
  readonly question: string;
  readonly reply: JsonRpcReply;
}

/** The replica that holds the call; `boot` tells a replica from its restarted self. */
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

const continuationClaims = z.strictObject({
  b: z.number(),
  q: z.array(
    z.strictObject({
      k: text,
      i: z.union([z.string(), z.number()]).nullable(),
      r: z.strictObject({ method: text, params: jsonObject }),
      b: answerTranslation,
    }),
  ),
  n: z.strictObject({ a: z.int().min(0), c: z.record(z.string(), z.int().min(0)) }),
  s: z
    .strictObject({ id: text, v: z.enum(LEGACY_REVISIONS), i: z.number(), e: z.string() })
    .nullable(),
  a: z.array(z.strictObject({ q: text, r: reply })).nullable(),
});

const parkClaims = z.strictObject({
  v: z.literal(1),
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
  cont: z.exactOptional(continuationClaims),
});

const pointerClaims = z.discriminatedUnion('mode', [parkClaims]);
export type PointerClaims = z.infer<typeof pointerClaims>;

/** In: a pointer. Out: its claims, or `null` when it is none that `readPointer` would take. */
export function writePointer(pointer: Pointer): PointerClaims | null {
  const { id, boot, address } = pointer.owner;
  const claims: PointerClaims = {
    v: pointer.version,
    mode: pointer.mode,
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
    ...(pointer.continuation === undefined
      ? {}
      : { cont: writeContinuation(pointer.continuation) }),
  };
  return pointerClaims.safeParse(claims).success ? claims : null;
}

/** In: any parsed value. Out: the pointer, or `null` when a claim is missing, odd, or not known. */
export function readPointer(value: unknown): Pointer | null {
  const parsed = pointerClaims.safeParse(value);
  if (!parsed.success) return null;
  const { o: owner, ...claims } = parsed.data;
  return {
    version: claims.v,
    mode: claims.mode,
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
    ...(claims.cont === undefined ? {} : { continuation: readContinuation(claims.cont) }),
  };
}

function writeContinuation(continuation: Continuation): z.infer<typeof continuationClaims> {
  const { startedAtMs, questions, keys, resume, replay } = continuation;
  return {
    b: startedAtMs,
    q: questions.map(({ key, id, request, back }) => ({
      k: key,
      i: id,
      r: request,
      b:
        back.kind === 'elicitation-form'
          ? { kind: back.kind, inverse: [...back.inverse].map(([name, one]) => [name, copy(one)]) }
          : back,
    })),
    n: { a: keys.asked, c: { ...keys.counts } },
    s:
      resume === null
        ? null
        : {
            id: resume.sessionId,
            v: resume.revision,
            i: resume.upstreamId,
            e: resume.lastEventId,
          },
    a: replay === null ? null : replay.map(({ question, reply }) => ({ q: question, r: reply })),
  };
}

/** A plain copy, without the `readonly` that the claims' type does not know. */
function copy(inverse: PropertyInverse): z.infer<typeof propertyInverse> {
  const { nullWhenMissing, value } = inverse;
  return {
    nullWhenMissing,
    value: value.type === 'number' ? { ...value, choices: [...value.choices] } : value,
  };
}

function readContinuation(claims: z.infer<typeof continuationClaims>): Continuation {
  const { b: startedAtMs, q: questions, n: keys, s: resume, a: replay } = claims;
  return {
    startedAtMs,
    questions: questions.map(({ k, i, r, b }) => ({
      key: inputKey(k),
      id: i === null ? null : serverRequestId(i),
      request: r,
      back: b.kind === 'elicitation-form' ? { kind: b.kind, inverse: new Map(b.inverse) } : b,
    })),
    keys: { asked: keys.a, counts: keys.c },
    resume:
      resume === null
        ? null
        : {
            sessionId: sessionId(resume.id),
            revision: resume.v,
            upstreamId: upstreamRequestId(resume.i),
            lastEventId: resume.e,
          },
    replay: replay === null ? null : replay.map(({ q, r }) => ({ question: q, reply: r })),
  };
}
