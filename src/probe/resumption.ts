/** Tests whether a broken stream can be resumed (transports, "Resumability and Redelivery"). */
import { sleep } from '../lib/clock.ts';
import { asUpstreamFailure } from '../model/upstream-failure.ts';
import type { HttpClient } from '../upstream/http/client.ts';
import { ask, isReplyTo, readUntil, type SessionTarget } from './ask.ts';
import type { ResumptionReport } from './report.ts';

/** Not an id that the session uses. */
const PING_ID = 900_001;
const REPLAY_WAIT_MS = 1_500;
/** Simple event stores order events of the same millisecond at random, and then miss some. */
const MAX_ATTEMPTS = 3;
const CONFLICT_WAIT_MS = 300;
const MAX_CONFLICTS = 3;

/** Pings, and then asks for all events after the first one of the response again. */
export async function tryResumption(probe: SessionTarget): Promise<ResumptionReport> {
  let found = await tryOnce(probe);
  for (let attempt = 2; attempt <= MAX_ATTEMPTS; attempt += 1) {
    if (found.lastEventId !== 'opened' || probe.deadline.passed) break;
    const again = await tryOnce(probe);
    if (again.lastEventId === 'replayed') found = again;
  }
  return found;
}

async function tryOnce(probe: SessionTarget): Promise<ResumptionReport> {
  const { headers } = probe;
  try {
    const answered = await ask(probe, { id: PING_ID, method: 'ping', params: {}, headers });
    if (answered.mediaType !== 'text/event-stream') return notTried('no-events');
    const [first] = answered.eventIds;
    if (first === undefined) return notTried('not-seen');
    const resumed = { ...headers, accept: 'text/event-stream', 'last-event-id': first };
    return { eventIds: 'seen', ...(await resume({ ...probe, headers: resumed })) };
  } catch {
    return notTried('no-answer');
  }
}

function notTried(eventIds: ResumptionReport['eventIds']): ResumptionReport {
  return { eventIds, lastEventId: 'not-tried', httpStatus: null };
}

type StreamReport = Omit<ResumptionReport, 'eventIds'>;

async function resume({ http, deadline, headers }: SessionTarget): Promise<StreamReport> {
  for (let conflicts = 0; ; conflicts += 1) {
    const found = await deadline
      .within(REPLAY_WAIT_MS, (signal) => resumeOnce(http, headers, signal))
      .catch(failed);
    // The server has not yet noticed that the stream of the ping has ended.
    if (found.httpStatus !== 409 || conflicts >= MAX_CONFLICTS || deadline.passed) return found;
    await sleep(deadline, CONFLICT_WAIT_MS);
  }
}

async function resumeOnce(
  http: HttpClient,
  headers: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<StreamReport> {
  const isMissed = isReplyTo(PING_ID);
  const reader = readUntil(http, { method: 'GET', headers }, isMissed, 0, signal);
  try {
    const { head, messages } = await reader.done;
    const { status: httpStatus, mediaType } = head;
    if (httpStatus !== 200 || mediaType !== 'text/event-stream') {
      return { lastEventId: 'refused', httpStatus };
    }
    // A server that ignores the header opens a new stream, without the missed reply.
    return { lastEventId: messages.some(isMissed) ? 'replayed' : 'opened', httpStatus };
  } catch (error) {
    // A stream without an end proves no more than one without the reply.
    const head = reader.responseHead;
    if (head === null) throw error;
    return { lastEventId: 'opened', httpStatus: head.status };
  }
}

function failed(error: unknown): StreamReport {
  const httpStatus = asUpstreamFailure(error, false).details.httpStatus ?? null;
  return { lastEventId: httpStatus === null ? 'no-answer' : 'refused', httpStatus };
}
