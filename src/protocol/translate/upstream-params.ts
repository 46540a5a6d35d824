/** Translates the params of a modern request for a legacy server. */
import { without, type JsonObject } from '../json/json.ts';

export interface UpstreamParamsContext {
  /** Our own token; `null` if no progress is wanted. */
  readonly progressToken: string | number | null;
  /** The members of the request's `_meta` that are forwarded: trace context and vendor keys. */
  readonly forwardedMeta: JsonObject;
}

/**
 * Removes the members of rounds and of the modern envelope, and `task`: only the gateway may turn a request
 * into a legacy task. Everything else is forwarded verbatim, including unknown members.
 */
export function upstreamParams(
  params: JsonObject,
  { progressToken, forwardedMeta }: UpstreamParamsContext,
): JsonObject {
  const meta: JsonObject =
    progressToken === null ? { ...forwardedMeta } : { ...forwardedMeta, progressToken };
  return {
    ...without(params, ['inputResponses', 'requestState', 'task', '_meta']),
    ...(Object.keys(meta).length > 0 ? { _meta: meta } : {}),
  };
}
