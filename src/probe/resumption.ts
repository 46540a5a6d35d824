/** Whether a stream that was cut could be read on (transports, "Resumability and Redelivery"). */
import { sleep } from '../lib/clock.ts';
import { readEventStream } from '../upstream/transport/event-stream.ts';
import type { HttpAnswer, HttpClient } from '../upstream/http/client.ts';
import { asUpstreamFailure } from '../upstream/failure.ts';
import { upstreamJson } from '../upstream/http/json.ts';
import { ask, replyIn } from './ask.ts';
import type { Deadline } from './deadline.ts';
import type { ResumptionReport } from './report.ts';

/** Far from the ids that the session counts up. */
const PING_ID = 900_001;
const REPLAY_WAIT_MS = 1_500;
/** Simple stores sort events of the same millisecond at random, and then miss some. */
const MAX_ATTEMPTS = 3;
const CONFLICT_WAIT_MS = 300;
const MAX_CONFLICTS = 3;

/**
 * Pings, and pretends to have missed everything behind the first event of the answer.
 * @param headers those of a message in a session: its id, if it has one, and the revision
 * @param waitMs how long the ping may take
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
    const answered = await deadline.within(waitMs, (signal) =>
      ask(http, question, deadline, signal),
    );
    if (answered.mediaType !== 'text/event-stream') return untried('no-events');
    const [first] = answered.eventIds;
    if (first === undefined) return untried('not-seen');
    return { eventIds: 'seen', ...(await takeUp(http, headers, first, deadline)) };
  } catch {
    return untried('no-answer');
  }
}

function untried(eventIds: ResumptionReport['eventIds']): ResumptionReport {
  return { eventIds, lastEventId: 'not-tried', httpStatus: null };
}

type TakenUp = Omit<ResumptionReport, 'eventIds'>;

async function takeUp(
  http: HttpClient,
  headers: Readonly<Record<string, string>>,
  lastEventId: string,
  deadline: Deadline,
): Promise<TakenUp> {
  for (let conflicts = 0; ; conflicts += 1) {
    const taken = await deadline
      .within(REPLAY_WAIT_MS, (signal) => takeUpOnce(http, headers, lastEventId, signal))
      .catch((error: unknown) => failed(error));
    // The server has not noticed yet that the stream of the ping is over.
    if (taken.httpStatus !== 409 || conflicts >= MAX_CONFLICTS || deadline.passed) return taken;
    await sleep(deadline, CONFLICT_WAIT_MS);
  }
}

async function takeUpOnce(
  http: HttpClient,
  headers: Readonly<Record<string, string>>,
  lastEventId: string,
  signal: AbortSignal,
): Promise<TakenUp> {
  const answer = await http.send({
    method: 'GET',
    headers: { ...headers, accept: 'text/event-stream', 'last-event-id': lastEventId },
    signal,
  });
  const httpStatus = answer.status;
  if (httpStatus !== 200 || answer.mediaType !== 'text/event-stream') {
    http.discard(answer);
    return { lastEventId: 'refused', httpStatus };
  }
  const replayed = await repeatsTheReply(http, answer);
  return { lastEventId: replayed ? 'replayed' : 'opened', httpStatus };
}

/** A server that does not know the header may open just any stream: only the missed response is proof. */
async function repeatsTheReply(http: HttpClient, answer: HttpAnswer): Promise<boolean> {
  let repeated = false;
  await readEventStream(answer.body, http.maxEventBytes, {
    retry: () => {},
    event: ({ data }) => {
      if (data === '' || repeated) return;
      repeated = replyIn(upstreamJson(data), PING_ID) !== null;
      if (repeated) answer.body.destroy();
    },
  }).catch(() => {});
  answer.body.on('error', () => {}).destroy();
  return repeated;
}

function failed(error: unknown): TakenUp {
  const httpStatus = asUpstreamFailure(error, false).details.httpStatus ?? null;
  return { lastEventId: httpStatus === null ? 'no-answer' : 'refused', httpStatus };
}
