/** The params of a modern request as a legacy server expects them. */
import { without, type JsonObject } from '../json/json.ts';

export interface UpstreamParamsContext {
  /** Our own token; `null` when no progress is wanted. */
  readonly progressToken: string | number | null;
  /** The members of the request's `_meta` that go on: trace context and vendor keys. */
  readonly forwardedMeta: JsonObject;
}

/**
 * Takes away what belongs to rounds and to the modern envelope, and a stray `task`: a request becomes
 * a legacy task only when the gateway wants it to. Everything else is verbatim, unknown members included.
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
