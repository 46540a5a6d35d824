/** The stages of a tool call that the server runs as a task, and the request that begins it. */
import type { Clock } from '../../../lib/clock.ts';
import type { UpstreamRequestId } from '../../../protocol/ids.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import type { CallerHeaders } from '../../transport/transport.ts';
import type {
  CallTask,
  CreatedCallTask,
  ExchangeListener,
  ExchangePoint,
  RequestExchange,
} from '../call-exchange.ts';
import type { Session } from '../session.ts';

export interface ToolCallRequest {
  /** Returns the params of `tools/call` for a progress token. */
  readonly params: (progressToken: UpstreamRequestId) => JsonObject;
  /** How long the server is asked to keep the task, in ms. */
  readonly ttlMs: number;
  /**
   * Whether the tool is known to demand a task. If not, it is called plainly, and once as a task if the server replies
   * that it demands one.
   */
  readonly demandsTask: boolean;
  /** True if calls of the tool have ended in this session, and none has asked. */
  readonly isSilent: boolean;
}

export interface TaskCallOptions {
  readonly session: Session;
  readonly clock: Clock;
  readonly listener: ExchangeListener;
}

/** Where a task call can be continued: a part of `ResumePoint`. */
export type TaskPoint = ExchangePoint & {
  readonly upstreamId: UpstreamRequestId;
  readonly task: CallTask;
};

export type Stage =
  /** The request is kept as long as the server can still demand a task. */
  | { readonly name: 'plain'; readonly toolCall: ToolCallRequest | null }
  | { readonly name: 'creating'; readonly progressToken: UpstreamRequestId }
  | { readonly name: 'following'; readonly task: CreatedCallTask };

/** A stage, and the request whose stream is that of the call. */
export interface Opened {
  readonly stage: Stage;
  readonly request: RequestExchange;
}

/** Asks the server to run a tool as a task. */
export function createTask(
  session: Session,
  { params, ttlMs: ttl }: ToolCallRequest,
  listener: ExchangeListener,
  headers: CallerHeaders,
): Opened {
  const withTask = (token: UpstreamRequestId) => ({ ...params(token), task: { ttl } });
  const request = session.createTask(withTask, listener, headers);
  return { stage: { name: 'creating', progressToken: request.id }, request };
}
