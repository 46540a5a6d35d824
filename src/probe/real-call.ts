/**
 * Makes the call that the operator named, leaves its stream when the server asks, and resumes the stream as a released call
 * does: only that shows whether a server sends new events on a resumed stream.
 */
import { once } from 'node:events';
import { nearest } from '../config/load/problem.ts';
import { asOneLine } from '../lib/shown-text.ts';
import type { UpstreamFailure } from '../model/upstream-failure.ts';
import type { ServerRequestId } from '../protocol/ids.ts';
import { isJsonObject } from '../protocol/json.ts';
import type { JsonRpcReply } from '../protocol/json-rpc.ts';
import { askedBy } from '../protocol/translate/input-request.ts';
import type { Listing, ToolEntry } from '../upstream/discovery/listings.ts';
import type { ExchangeListener } from '../upstream/session/call-exchange.ts';
import type { Session } from '../upstream/session/session.ts';
import type { Deadline } from './ask.ts';
import type { RealCall } from './named-call.ts';
import { ProbeFailure } from './probe-failure.ts';
import type { RealCallReport } from './report.ts';

const QUESTION_WAIT_MS = 5_000;
/** A released call whose resumed stream stays silent is resumed once more after 5 s, so this is too late. In ms. */
const RESULT_WAIT_MS = 3_000;
/** Some servers send the head of a resumed stream with its first event: they are answered after this time. In ms. */
const HEAD_WAIT_MS = 3_000;
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

/** What the server does first with a call, or with one that was resumed. */
type Told =
  | { readonly type: 'asked'; readonly id: ServerRequestId; readonly method: string }
  | { readonly type: 'replied'; readonly reply: JsonRpcReply }
  | { readonly type: 'lost'; readonly failure: UpstreamFailure };

/** Makes the call in a session of the probe. @throws UpstreamFailure if the server does not take the answer */
export async function tryRealCall(
  session: Session,
  deadline: Deadline,
  { tool, arguments: args }: RealCall,
): Promise<RealCallReport> {
  const report = (outcome: RealCallReport['outcome'], answerMs: number | null = null) => {
    return { tool, outcome, answerMs, problem: null };
  };
  // Such a question can be of the session, as that for its roots, and of no call.
  const { listener, told } = listening((id, method) => {
    if (!call.asksBeside) return false;
    call.respond(id, declinedReplyTo(method), {}).catch(() => {});
    return true;
  });
  const params = { name: tool, arguments: args };
  const call = session.call('tools/call', () => params, listener, {});
  let isTaken = false;
  call.accepted.then(
    () => (isTaken = true),
    () => {},
  );
  const first = await soon(deadline, QUESTION_WAIT_MS, told);
  if (first?.type === 'replied') return { ...report('not-asked'), ...endOf(first.reply) };
  if (first?.type === 'lost') return report('failed');
  const point = call.resumable();
  if (first === null || point?.task !== null) {
    await call.cancel('the probe ends', {});
    call.abandon();
    return report(first !== null ? 'not-asked' : isTaken ? 'failed' : 'held-back');
  }
  call.abandon();
  const resumed = listening();
  const again = session.resumeCall(call.id, point, resumed.listener, {}, [first.id]);
  // The server would replay the result of an answer that came first, which says nothing about new events.
  await soon(deadline, HEAD_WAIT_MS, Promise.race([resumed.begun, resumed.told]));
  const answered = again.respond(first.id, declinedReplyTo(first.method), {});
  const answeredAtMs = await answered.then(() => deadline.elapsed());
  const end = await soon(deadline, RESULT_WAIT_MS, resumed.told);
  const answerMs = Math.max(0, Math.round(deadline.elapsed() - answeredAtMs));
  if (end?.type !== 'replied') await again.cancel('the probe ends', {});
  again.abandon();
  return end?.type === 'replied' ? report('resumed', answerMs) : report('late');
}

/** @param takes whether it does what a question needs itself */
function listening(takes: (id: ServerRequestId, method: string) => boolean = () => false) {
  const { promise: told, resolve } = Promise.withResolvers<Told>();
  const { promise: begun, resolve: resumed } = Promise.withResolvers<null>();
  const lost = (failure: UpstreamFailure) => resolve({ type: 'lost', failure });
  const listener: ExchangeListener = {
    asked: (id, method) => {
      if (!takes(id, method)) resolve({ type: 'asked', id, method });
    },
    replied: (reply) => resolve({ type: 'replied', reply }),
    notTaken: lost,
    lost,
    resumed: () => resumed(null),
    interrupted: () => {},
    withdrawn: () => {},
    unanswerable: () => {},
    notified: () => {},
    backlog: () => null,
  };
  return { listener, told, begun };
}

/** @returns `null` if it takes longer, or the probe ends */
function soon<Result>(
  deadline: Deadline,
  waitMs: number,
  result: Promise<Result>,
): Promise<Result | null> {
  return deadline.within(waitMs, (signal) => {
    return Promise.race([result, once(signal, 'abort').then(() => null)]);
  });
}

/** Says how a call ended that asked nothing. */
function endOf(reply: JsonRpcReply): Pick<RealCallReport, 'outcome' | 'problem'> {
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

/** Refuses what the server asks, as a user can. */
function declinedReplyTo(method: string): JsonRpcReply {
  if (askedBy(method) === 'elicitation') return { result: { action: 'decline' } };
  if (method === 'roots/list') return { result: { roots: [] } };
  return { error: { code: -1, message: 'the probe answers nothing' } };
}
