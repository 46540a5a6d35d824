/**
 * Makes the call that the operator named, leaves its stream when the server asks, and resumes the stream as a released call
 * does: only that shows whether a server sends new events on a resumed stream.
 */
import { once } from 'node:events';
import { nearest } from '../config/load/problem.ts';
import { asOneLine } from '../lib/shown-text.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../protocol/json.ts';
import { readMessage, type JsonRpcReply } from '../protocol/json-rpc.ts';
import { askedBy } from '../protocol/translate/input-request.ts';
import type { Listing, ToolEntry } from '../upstream/discovery/listings.ts';
import { isReplyTo, postOf, readUntil, replyIn, type SessionTarget } from './ask.ts';
import type { RealCall } from './named-call.ts';
import { ProbeFailure } from './probe-failure.ts';
import type { RealCallReport } from './report.ts';

interface ProbeQuestion {
  readonly id: string | number;
  readonly method: string;
  /** Of the event with the question. */
  readonly eventId: string;
}

const CALL_ID = 900_003;
const isResult = isReplyTo(CALL_ID);
const QUESTION_WAIT_MS = 5_000;
/** A released call whose resumed stream stays silent is resumed once more after 5 s, so this is too late. In ms. */
const RESULT_WAIT_MS = 3_000;
/** Some servers send the head of a resumed stream with its first event: they are answered after this time. In ms. */
const HEAD_WAIT_MS = 3_000;
const CANCEL_WAIT_MS = 1_000;
const MAX_PROBLEM_LENGTH = 160;

/** Refuses a tool that is not in a list that was read in full. @throws ProbeFailure with a similar name, if there is one */
export function refuseUnknownTool(
  { tool }: RealCall,
  { items, truncated, problem }: Listing<ToolEntry>,
): void {
  const names = items.map(({ name }) => name);
  if (names.includes(tool) || truncated || problem !== null) return;
  const meant = nearest(tool, names);
  const wayOut =
    meant === null
      ? 'without --call, the probe lists its tools'
      : `did you mean ${JSON.stringify(asOneLine(meant, 100))}?`;
  const written = JSON.stringify(asOneLine(tool, 100));
  throw new ProbeFailure('unknown_tool', `--call: the server has no tool ${written}; ${wayOut}`);
}

/** @throws UpstreamFailure if the server does not take the call */
export async function tryRealCall(
  probe: SessionTarget,
  { tool, arguments: args }: RealCall,
): Promise<RealCallReport> {
  const params = { name: tool, arguments: args };
  const { question, reply, isHeldBack } = await callUntilAsked(probe, params);
  if (isHeldBack) {
    await cancel(probe);
    return { tool, outcome: 'held-back', answerMs: null, problem: null };
  }
  if (question === null) return { tool, answerMs: null, ...endOf(reply) };
  const answerMs = await answerAndResume(probe, question).catch(() => null);
  if (answerMs !== null) return { tool, outcome: 'resumed', answerMs, problem: null };
  await cancel(probe);
  return { tool, outcome: 'late', answerMs: null, problem: null };
}

/** Never rejects. */
function cancel(probe: SessionTarget): Promise<void> {
  const params = { requestId: CALL_ID, reason: 'the probe ends' };
  return send(probe, { method: 'notifications/cancelled', params }).catch(() => {});
}

/** Says how a call ended that asked nothing. */
function endOf(reply: JsonRpcReply | null): Pick<RealCallReport, 'outcome' | 'problem'> {
  if (reply === null) return { outcome: 'not-asked', problem: null };
  if ('error' in reply) return { outcome: 'failed', problem: shortened(reply.error.message) };
  const { isError, content } = reply.result;
  if (isError !== true) return { outcome: 'not-asked', problem: null };
  const texts = (Array.isArray(content) ? content : []).map((block) =>
    isJsonObject(block) && typeof block['text'] === 'string' ? block['text'] : '',
  );
  return { outcome: 'tool-error', problem: shortened(texts.join(' ')) };
}

function shortened(text: string): string | null {
  return asOneLine(text, MAX_PROBLEM_LENGTH) || null;
}

interface CallStart {
  /** `null` if the call ends without a question on its own stream, or the stream cannot be resumed. */
  readonly question: ProbeQuestion | null;
  /** `null` if there is none yet. */
  readonly reply: JsonRpcReply | null;
  /** Whether the request was sent, and nothing came. */
  readonly isHeldBack: boolean;
}

async function callUntilAsked(
  { http, deadline, headers }: SessionTarget,
  params: JsonObject,
): Promise<CallStart> {
  const request = postOf(headers, { id: CALL_ID, method: 'tools/call', params });
  const isEnough = (message: JsonValue) =>
    isResult(message) || readMessage(message).type === 'request';
  let isHeldBack = false;
  const read = await deadline
    .within(QUESTION_WAIT_MS, (signal) => {
      const reader = readUntil(http, request, isEnough, 0, signal);
      signal.addEventListener('abort', () => (isHeldBack = reader.responseHead === null));
      return reader.done;
    })
    .catch((error: unknown) => {
      if (!isHeldBack) throw error;
      return null;
    });
  if (read === null) return { question: null, reply: null, isHeldBack };
  const { messages, eventIds } = read;
  const last = messages.at(-1);
  const asked = last === undefined ? null : readMessage(last);
  const eventId = eventIds.at(-1);
  if (asked?.type === 'request' && eventId !== undefined) {
    return { question: { id: asked.id, method: asked.method, eventId }, reply: null, isHeldBack };
  }
  const reply = last === undefined ? null : replyIn(last, CALL_ID);
  return { question: null, reply, isHeldBack };
}

/**
 * Resumes the stream and then answers. The server would replay the result of an answer that came first, which says nothing
 * about new events.
 * @returns how long after the answer the result came on the resumed stream, in ms
 */
async function answerAndResume(
  probe: SessionTarget,
  { id, method, eventId }: ProbeQuestion,
): Promise<number> {
  const { http, deadline, headers } = probe;
  const resume = { ...headers, accept: 'text/event-stream', 'last-event-id': eventId };
  const request = { method: 'GET', headers: resume } as const;
  const leave = new AbortController();
  const stream = readUntil(http, request, isResult, 0, leave.signal);
  stream.done.catch(() => {});
  try {
    await deadline.within(HEAD_WAIT_MS, (signal) => {
      return Promise.race([stream.begun, once(signal, 'abort')]);
    });
    await send(probe, { id, ...declinedReplyTo(method) });
    const answeredAtMs = deadline.elapsed();
    const { messages } = await deadline.within(RESULT_WAIT_MS, (signal) => {
      signal.addEventListener('abort', () => leave.abort());
      return stream.done;
    });
    if (!messages.some(isResult)) throw new Error('the resumed stream ended without the result');
    return Math.max(0, Math.round(deadline.elapsed() - answeredAtMs));
  } finally {
    leave.abort();
  }
}

/** Refuses what the server asks, as a user can. */
function declinedReplyTo(method: string): JsonObject {
  if (askedBy(method) === 'elicitation') return { result: { action: 'decline' } };
  if (method === 'roots/list') return { result: { roots: [] } };
  return { error: { code: -1, message: 'the probe answers nothing' } };
}

function send({ http, deadline, headers }: SessionTarget, message: JsonObject): Promise<void> {
  return deadline.within(CANCEL_WAIT_MS, () => http.sendForStatus(postOf(headers, message)));
}
