/** How a call that failed after it had begun is reported to the client. */
import { metaMember } from '../protocol/translate/edge-result.ts';
import { objectMember, type JsonObject } from '../protocol/json/json.ts';
import { Meta } from '../protocol/meta.ts';
import type { CallAnswer } from './request.ts';
import type { Failure } from './outcome.ts';

/**
 * A tool that was interrupted is for the model to see, hence a result with `isError` (tools, "Error
 * Handling"); prompts and resources know no such thing and get the JSON-RPC error.
 */
export function failedCallAnswer(
  method: string,
  failure: Failure,
  serverInfo: JsonObject | null,
): CallAnswer {
  if (method !== 'tools/call') return { kind: 'failed', failure };
  const { message } = failure.error;
  const data = objectMember({ ...failure.error }, 'data') ?? {};
  const { reason, mayHaveActed } = data;
  const result: JsonObject = {
    resultType: 'complete',
    content: [{ type: 'text', text: message }],
    isError: true,
    ...metaMember(
      { [Meta.reason]: reason ?? null, [Meta.mayHaveActed]: mayHaveActed ?? null },
      serverInfo,
    ),
  };
  return { kind: 'result', result };
}
