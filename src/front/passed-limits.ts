/** The limits of a route for what is passed through to its server. */
import type { ServerResponse } from 'node:http';
import type { PassedRequest } from '../edge/options.ts';
import { readJsonBody } from '../edge/request/body.ts';
import { hasClaim } from '../edge/request/modern-request.ts';
import { refuse, sendRefusal } from '../edge/response-writer.ts';
import type { AdmissionVerdict } from '../limits/admission.ts';
import { STOPPING, STOPPING_WAIT_MS } from '../model/failures.ts';
import { secondsOf, statusOfLimit } from '../model/limited.ts';
import { clientRequestId } from '../protocol/ids.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../protocol/json.ts';
import type { Route } from '../routes/route.ts';

/**
 * Decides whether a message is passed through: all requests of a batch, or none. What continues something is: a response, a
 * notification, and what concerns a task.
 * @returns false if it is not, and has its response
 */
export async function passesLimits(
  route: Route,
  { body, response, caller: { principalKey } }: PassedRequest,
): Promise<boolean> {
  const { admission, calls } = route;
  if ((admission.isClear && !calls.isStopping) || body === null) return true;
  const read = requestsIn(body);
  if (admission.limitsTools && !read?.every(namesTool)) {
    refuse(response, 415, UNREADABLE);
    return false;
  }
  // It can be a request.
  const messages = read ?? [{}];
  const places: (() => void)[] = [];
  const giveBack = () => {
    for (const done of places) done();
  };
  for (const [index, message] of messages.entries()) {
    const hasMore = index < messages.length - 1;
    const verdict = await verdictOf(route, message, hasMore, principalKey);
    if (verdict.type !== 'admitted') {
      giveBack();
      sendVerdict(message, response, verdict);
      return false;
    }
    if (verdict.done !== null) places.push(verdict.done);
  }
  if (response.destroyed) giveBack();
  else if (places.length > 0) response.once('close', giveBack);
  return true;
}

/**
 * Only a modern server knows whether it issued a `requestState`. With one that is made up no limit must be evaded, but a process
 * that stops can let it through: it soon lets nothing through.
 */
function verdictOf(
  { admission, calls }: Route,
  request: JsonObject,
  hasMore: boolean,
  principalKey: string,
) {
  const { method, params } = request;
  const name = method === 'tools/call' && isJsonObject(params) ? params['name'] : null;
  if (calls.isStopping && !mayBeRetry(request)) return STOPPING_VERDICT;
  return admission.admit({
    principalKey,
    tool: typeof name === 'string' ? name : null,
    isCall: true,
    isRetry: false,
    hasMore,
  });
}

/** False for a call of a tool whose name a lax server could still make a string of. */
function namesTool({ method, params }: JsonObject): boolean {
  return method !== 'tools/call' || !isJsonObject(params) || typeof params['name'] === 'string';
}

/** A legacy request is never a retry, whatever is in its parameters. */
function mayBeRetry(request: JsonObject): boolean {
  const { params } = request;
  return hasClaim(request) && isJsonObject(params) && params['requestState'] !== undefined;
}

export function sendVerdict(
  { id }: JsonObject,
  response: ServerResponse,
  verdict: Exclude<AdmissionVerdict, { readonly type: 'admitted' }> | typeof STOPPING_VERDICT,
): void {
  const { retryAfterMs, failure } = verdict;
  const httpStatus = verdict.type === 'stopping' ? 503 : statusOfLimit(verdict.limit);
  const isId = typeof id === 'string' || typeof id === 'number';
  const refusal = {
    ...{ httpStatus, id: isId ? clientRequestId(id) : null, error: failure.error },
    mayHaveActed: 'no',
  } as const;
  const headers = { 'retry-after': String(secondsOf(retryAfterMs)) };
  sendRefusal(response, refusal, headers);
}

const STOPPING_VERDICT = {
  type: 'stopping',
  retryAfterMs: STOPPING_WAIT_MS,
  failure: STOPPING,
} as const;

const UNREADABLE =
  'The gateway limits calls by tool, and cannot read the name of the tool: expected JSON in UTF-8, not compressed, and a name that is a string';

/**
 * Finds the requests in a body that limits concern.
 * @returns `null` if only the server could read it, such as a compressed body, or could read it in another way
 */
export function requestsIn(body: Buffer): readonly JsonObject[] | null {
  const read = readJsonBody(body);
  if (read.type !== 'json') return null;
  const { value } = read;
  const isRequest = (message: JsonValue): message is JsonObject =>
    isJsonObject(message) &&
    typeof message['method'] === 'string' &&
    message['id'] !== undefined &&
    !/^(?:tasks\/|server\/discover$)/.test(message['method']);
  return (Array.isArray(value) ? value : [value]).filter(isRequest);
}
