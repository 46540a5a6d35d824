/**
 * The token of a saga: the method and the params of its call, which `tools/resumeSaga` does not repeat, and the sealed
 * `requestState`. That is bound to a digest of the same params, so the seal guards both.
 */
import {
  isJsonObject,
  without,
  type JsonObject,
  excessOf,
  parseJson,
} from '../../protocol/json.ts';
import { ROUND_MEMBERS, type FinalRequest } from '../codec.ts';

const MAX_DEPTH = 256;

interface OpenedToken {
  readonly method: string;
  readonly params: JsonObject;
  readonly requestState: string;
}

/** Writes the token of a call, whose params can have those of a round. */
export function writeToken({ method, params }: FinalRequest, requestState: string): string {
  const call = { method, params: without(params, [...ROUND_MEMBERS, '_meta']), requestState };
  return Buffer.from(JSON.stringify(call)).toString('base64url');
}

/** Reads a token, which any client can have written. @returns `null` if it has another form */
export function readToken(token: string): OpenedToken | null {
  const text = Buffer.from(token, 'base64url').toString();
  if (excessOf(text, MAX_DEPTH) !== null) return null;
  try {
    const content = parseJson(text);
    if (!isJsonObject(content)) return null;
    const { method, params, requestState } = content;
    if (typeof method !== 'string' || typeof requestState !== 'string') return null;
    return isJsonObject(params) ? { method, params, requestState } : null;
  } catch {
    return null;
  }
}
