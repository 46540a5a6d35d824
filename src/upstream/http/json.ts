/** JSON from a legacy server, which may send what it likes. */
import { excessOf, MAX_CONTAINERS, parseJson } from '../../protocol/json/parse.ts';
import type { JsonValue } from '../../protocol/json/json.ts';
import { UpstreamFailure } from '../failure.ts';

/** Far beyond real results, and far from where writing them again would exhaust the stack. */
const MAX_JSON_DEPTH = 500;

/** @throws UpstreamFailure when it is not JSON, is an abyss, is made of too many pieces, or would reach a prototype */
export function upstreamJson(text: string): JsonValue {
  const excess = excessOf(text, MAX_JSON_DEPTH);
  if (excess !== null) {
    const problem =
      excess === 'depth'
        ? `it sent JSON nested more than ${MAX_JSON_DEPTH} levels deep`
        : `it sent JSON of more than ${MAX_CONTAINERS} objects and arrays`;
    throw new UpstreamFailure('upstream_protocol_error', problem, { mayHaveActed: true });
  }
  try {
    return parseJson(text);
  } catch (cause) {
    throw new UpstreamFailure('upstream_protocol_error', 'it sent a body that is not JSON', {
      mayHaveActed: true,
      cause,
    });
  }
}
