/** What a server says of its revisions when it does not take that of a request (versioning, "Protocol Version Negotiation"). */
import { isJsonObject } from './json.ts';
import { ErrorCode, type JsonRpcErrorObject } from './json-rpc.ts';
import { MODERN_REVISION } from './meta.ts';

/** Tells by an error whether the server speaks 2026-07-28; `null` if the error does not say so. */
export function saysItIsModern({ code, data }: JsonRpcErrorObject): boolean | null {
  if (code !== ErrorCode.unsupportedProtocolVersion || !isJsonObject(data)) return null;
  const { supported } = data;
  return Array.isArray(supported) ? supported.includes(MODERN_REVISION) : null;
}
