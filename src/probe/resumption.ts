/** Tests whether a broken stream can be resumed (transports, "Resumability and Redelivery"). */
import { sleep } from '../lib/clock.ts';
import { asUpstreamFailure } from '../upstream/failure.ts';
import type { HttpClient } from '../upstream/http/client.ts';
import { MessageReader } from '../upstream/http/readers.ts';
import { ask, replyIn } from './ask.ts';
import type { Deadline } from './deadline.ts';
import type { ResumptionReport } from './report.ts';

/** Not an id that the session uses. */
const PING_ID = 900_001;
const REPLAY_WAIT_MS = 1_500;
/** Simple event stores order events of the same millisecond at random, and then miss some. */
const MAX_ATTEMPTS = 3;
const CONFLICT_WAIT_MS = 300;
const MAX_CONFLICTS = 3;

/**
 * Pings, and then asks for all events after the first one of the response again.
 * @param headers of a message in the session: its id, if any, and the revision
 * @param waitMs the timeout of the ping, in ms
 */
export async function tryResumption(
  http: HttpClient,
  headers: Readonly<Record<string, string>>,
  deadline: Deadline,
  waitMs: number,
): Promise<ResumptionReport> {
  let found = await tryOnce(http, headers, deadline, waitMs);
  for (let attempt = 2; attempt <= MAX_ATTEMPTS; attempt += 1) {
    if (found.lastEventId !== 'opened' || deadline.passed) break;
    const again = await tryOnce(http, headers, deadline, waitMs);
    if (again.lastEventId === 'replayed') found = again;
  }
  return found;
}

async function tryOnce(
  http: HttpClient,
  headers: Readonly<Record<string, string>>,
  deadline: Deadline,
  waitMs: number,
): Promise<ResumptionReport> {
  try {
    const question = { id: PING_ID, method: 'ping', params: {}, headers };
    const answered = await deadline.within(waitMs, (signal) => ask(http, question, signal));
    if (answered.mediaType !== 'text/event-stream') return notTried('no-events');
    const [first] = answered.eventIds;
    if (first === undefined) return notTried('not-seen');
    return { eventIds: 'seen', ...(await resume(http, headers, first, deadline)) };
  } catch {
    return notTried('no-answer');
  }
}

function notTried(eventIds: ResumptionReport['eventIds']): ResumptionReport {
  return { eventIds, lastEventId: 'not-tried', httpStatus: null };
}

type StreamReport = Omit<ResumptionReport, 'eventIds'>;

async function resume(
  http: HttpClient,
  headers: Readonly<Record<string, string>>,
  lastEventId: string,
  deadline: Deadline,
): Promise<StreamReport> {
  for (let conflicts = 0; ; conflicts += 1) {
    const found = await deadline
      .within(REPLAY_WAIT_MS, (signal) => resumeOnce(http, headers, lastEventId, signal))
      .catch((error: unknown) => failed(error));
    // The server has not yet noticed that the stream of the ping has ended.
    if (found.httpStatus !== 409 || conflicts >= MAX_CONFLICTS || deadline.passed) return found;
    await sleep(deadline, CONFLICT_WAIT_MS);
  }
}

async function resumeOnce(
  http: HttpClient,
  headers: Readonly<Record<string, string>>,
  lastEventId: string,
  signal: AbortSignal,
): Promise<StreamReport> {
  const reader = new MessageReader(
    (message) => replyIn(message, PING_ID) !== null,
    () => exchange.end(),
  );
  const exchange = http.send(
    {
      method: 'GET',
      headers: { ...headers, accept: 'text/event-stream', 'last-event-id': lastEventId },
    },
    reader,
  );
  signal.addEventListener('abort', () => exchange.fail(asUpstreamFailure(signal.reason, false)));
  try {
    const { head, messages } = await reader.done;
    const { status: httpStatus, mediaType } = head;
    if (httpStatus !== 200 || mediaType !== 'text/event-stream') {
      return { lastEventId: 'refused', httpStatus };
    }
    // A server that ignores the header opens a new stream, without the missed reply.
    const replayed = messages.some((message) => replyIn(message, PING_ID) !== null);
    return { lastEventId: replayed ? 'replayed' : 'opened', httpStatus };
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
