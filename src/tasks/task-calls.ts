/** The call of a task, as the task sees it: it retries as a client would. */
import type { CallReply, EdgeRequest, Leg } from '../model/request.ts';
import { objectMember, type JsonObject } from '../protocol/json.ts';

/** What a task does with its call. */
export interface TaskCalls {
  serve(request: EdgeRequest, leg: Leg): Promise<CallReply>;
  /** Cancels a call that is here. @returns false if it is not, or if its stream is being resumed */
  cancelHere(request: EdgeRequest, requestState: string): boolean;
}

/** A reply that tells the client to retry, which a task can be made of. */
export interface PromotedReply {
  readonly requestState: string;
  readonly inputRequests: JsonObject;
  readonly meta: JsonObject | undefined;
}

/** Reads what a task can be made of. @returns `null` for any other reply */
export function retryOf(reply: CallReply): PromotedReply | null {
  if (reply.kind === 'failed' || reply.result['resultType'] !== 'input_required') return null;
  const { requestState } = reply.result;
  if (typeof requestState !== 'string') return null;
  const inputRequests = objectMember(reply.result, 'inputRequests') ?? {};
  return { requestState, inputRequests, meta: objectMember(reply.result, '_meta') };
}
