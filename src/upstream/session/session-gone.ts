/**
 * How real servers say that they do not know a session. The specification wants 404 (transports,
 * "Session Management"); deployed servers also say it with 400 or inside a JSON-RPC error.
 */
import type { JsonRpcErrorObject } from '../../protocol/json-rpc.ts';

const SESSION_WORDS =
  /\bsession\b.{0,40}\b(not found|unknown|expired|invalid|terminated|closed|does not exist|not exist)\b|\b(no|invalid|unknown|missing|expired|bad)\b.{0,20}\bsession\b|\bserver not initialized\b|\bnot initialized\b/i;

const SESSION_CODES = new Set([-32000, -32001, -32600]);

/** True when an HTTP answer to a message that carried our session id means "unknown session". */
export function saysSessionGone(status: number, error: JsonRpcErrorObject | null): boolean {
  if (status === 404) return true;
  if (status !== 400 || error === null) return false;
  return isSessionError(error);
}

/**
 * True when a JSON-RPC error, given with any status, reads like "unknown session". A tool may say the
 * same of sessions of its own, so this decides only where the session is one that may be unknown.
 */
export function isSessionError(error: JsonRpcErrorObject): boolean {
  return SESSION_CODES.has(error.code) && SESSION_WORDS.test(error.message.slice(0, 200));
}
