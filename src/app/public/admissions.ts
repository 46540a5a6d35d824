/** What limits let through: requests of modern clients, and those that are passed through to the endpoint of a server. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { sendRefusal } from '../../edge/response-writer.ts';
import { canRequireInput, isMethod } from '../../edge/request/methods.ts';
import type { Closed } from '../../lib/closing.ts';
import type { Admission, AdmissionVerdict } from '../../limits/admission.ts';
import { CALL_CANCELLED, STOPPING, STOPPING_WAIT_MS } from '../../model/failures.ts';
import { secondsOf, statusOfLimit } from '../../model/limited.ts';
import type { CallReply, Caller, EdgeRequest } from '../../model/request.ts';
import { clientRequestId } from '../../protocol/ids.ts';
import { isJsonObject, parseJson, type JsonObject, type JsonValue } from '../../protocol/json.ts';
import type { Route } from '../routes/route.ts';

/** Serves a request of a modern client, if it is admitted. */
export function whenAdmitted(
  admission: Admission,
  request: EdgeRequest,
  closed: Closed,
  serve: () => Promise<CallReply>,
): Promise<CallReply> {
  const { method, params, caller } = request;
  const verdict = admission.admit({
    principalKey: caller.principalKey,
    tool: method === 'tools/call' ? String(params['name']) : null,
    isCall: isMethod(method) && canRequireInput(method),
    isRetry: request.requestState !== null,
  });
  const proceed = async (decided: AdmissionVerdict): Promise<CallReply> => {
    if (decided.type === 'refused') return { kind: 'failed', failure: decided.failure };
    try {
      if (closed.aborted) return { kind: 'failed', failure: CALL_CANCELLED };
      return await serve();
    } finally {
      decided.done?.();
    }
  };
  if (verdict instanceof Promise) return verdict.then(proceed);
  return verdict.type === 'admitted' && verdict.done === null ? serve() : proceed(verdict);
}

/**
 * Decides whether a message is passed through. What continues something is: a response, a notification, a retry, and what
 * concerns a task.
 * @returns false if it is not, and has its response
 */
export async function passesLimits(
  { admission, calls }: Pick<Route, 'admission' | 'calls'>,
  { body }: FastifyRequest,
  reply: FastifyReply,
  caller: () => Caller,
): Promise<boolean> {
  if ((admission.isClear && !calls.isStopping) || !(body instanceof Buffer)) return true;
  const request = requestIn(body);
  if (request === null) return true;
  const { method, params, id } = request;
  const isTool = method === 'tools/call' && isJsonObject(params);
  const isRetry = isJsonObject(params) && params['requestState'] !== undefined;
  const isRefused = calls.isStopping && !isRetry;
  const verdict = isRefused
    ? STOPPING_VERDICT
    : await admission.admit({
        principalKey: caller().principalKey,
        tool: isTool ? String(params['name']) : null,
        isCall: true,
        isRetry,
      });
  if (verdict.type === 'admitted') {
    if (reply.raw.destroyed) verdict.done?.();
    else if (verdict.done !== null) reply.raw.once('close', verdict.done);
    return true;
  }
  const { retryAfterMs, failure } = verdict;
  const httpStatus = verdict.type === 'stopping' ? 503 : statusOfLimit(verdict.limit);
  const isId = typeof id === 'string' || typeof id === 'number';
  const refusal = { httpStatus, id: isId ? clientRequestId(id) : null, error: failure.error };
  const headers = { 'retry-after': String(secondsOf(retryAfterMs)) };
  sendRefusal(reply.hijack().raw, refusal, headers);
  return false;
}

const STOPPING_VERDICT = {
  type: 'stopping',
  retryAfterMs: STOPPING_WAIT_MS,
  failure: STOPPING,
} as const;

/** Finds the request in a body, or the first one of a batch. @returns `null` if there is none that limits concern */
function requestIn(body: Buffer): JsonObject | null {
  let read: JsonValue;
  try {
    read = parseJson(body.toString('utf8'));
  } catch {
    return null;
  }
  const isRequest = (message: JsonValue): message is JsonObject =>
    isJsonObject(message) &&
    typeof message['method'] === 'string' &&
    message['id'] !== undefined &&
    !/^(?:tasks\/|server\/discover$)/.test(message['method']);
  return (Array.isArray(read) ? read : [read]).find(isRequest) ?? null;
}
