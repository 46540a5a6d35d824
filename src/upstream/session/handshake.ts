/** The `initialize` handshake: agrees on a revision, and reads what the server says of itself. */
import {
  isJsonObject,
  objectMember,
  type JsonObject,
  type JsonValue,
} from '../../protocol/json.ts';
import type { JsonRpcErrorObject, JsonRpcReply } from '../../protocol/json-rpc.ts';
import { isLegacyRevision, LEGACY_REVISIONS, type LegacyRevision } from '../../protocol/meta.ts';
import { runsToolTasks } from '../../protocol/task.ts';
import { beginningOf, protocolError, type UpstreamFailure } from '../../model/upstream-failure.ts';

export interface InitializeResult {
  readonly protocolVersion: LegacyRevision;
  readonly capabilities: JsonObject;
  /** Whether the server runs tool calls as tasks. */
  readonly runsToolTasks: boolean;
  /** The whole result as the server sent it. */
  readonly raw: JsonObject;
}

/**
 * Offers the newest legacy revision. After a refusal that lists others, offers the newest of those.
 * @param ask sends `initialize` with these params
 * @throws UpstreamFailure if the server refuses, or chooses an unknown revision
 */
export async function initialize(
  ask: (params: JsonObject) => Promise<JsonRpcReply>,
  capabilities: JsonObject,
  clientInfo: JsonObject,
): Promise<InitializeResult> {
  let offer: LegacyRevision = LEGACY_REVISIONS[0];
  for (let attempt = 0; ; attempt += 1) {
    const reply = await ask({ protocolVersion: offer, capabilities, clientInfo });
    if ('result' in reply) return readInitializeResult(reply.result);
    const other = attempt === 0 ? bestSupported(reply.error.data) : null;
    if (other === null) throw refusedInitialize(reply.error);
    offer = other;
  }
}

function readInitializeResult(result: JsonObject): InitializeResult {
  const { protocolVersion } = result;
  if (!isLegacyRevision(protocolVersion)) {
    const version = JSON.stringify(protocolVersion ?? null).slice(0, 40);
    throw protocolError(
      `it replied to initialize with the protocol version ${version}, which this gateway does not support`,
    );
  }
  return describeServer(result, protocolVersion);
}

/** Reads what a server said of itself in a result of `initialize`. */
export function describeServer(raw: JsonObject, protocolVersion: LegacyRevision): InitializeResult {
  const capabilities = objectMember(raw, 'capabilities') ?? {};
  return { protocolVersion, capabilities, runsToolTasks: runsToolTasks(capabilities), raw };
}

/** Returns the newest known revision that an `initialize` error lists in `data.supported`, or `null`. */
function bestSupported(data: JsonValue | undefined): LegacyRevision | null {
  const supported = isJsonObject(data) ? data['supported'] : null;
  if (!Array.isArray(supported)) return null;
  return LEGACY_REVISIONS.find((revision) => supported.includes(revision)) ?? null;
}

function refusedInitialize(rpcError: JsonRpcErrorObject): UpstreamFailure {
  const { code, message } = rpcError;
  const problem = `it refused initialize with the JSON-RPC error ${code}`;
  const refused = protocolError(problem).with({ rpcError });
  return message === '' ? refused : refused.with({ said: beginningOf(message) });
}
