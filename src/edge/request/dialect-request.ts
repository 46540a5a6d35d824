/**
 * Reads a request on the path of a dialect. The drafts keep the lifecycle of 2025-11-25: `initialize` is emulated, and
 * what it declares comes back in `Mcp-Session-Id`, sealed. A client can also send its capabilities in `_meta`.
 */
import { z } from 'zod';
import { unlessEmpty, type Codec } from '../../dialects/codec.ts';
import { VERSION } from '../../lib/program.ts';
import { jsonObject, type Caller, type CallReply } from '../../model/request.ts';
import type { ClientRequestId } from '../../protocol/ids.ts';
import { isJsonObject, objectMember, without, type JsonObject } from '../../protocol/json.ts';
import { ErrorCode } from '../../protocol/json-rpc.ts';
import { Meta, isLegacyRevision, LEGACY_REVISIONS } from '../../protocol/meta.ts';
import { legacyCapabilities } from '../../protocol/translate/client-profile.ts';
import { TASKS } from '../../protocol/translate/extensions.ts';
import { finalReply, type WireReply } from '../response-writer.ts';
import { readHeader } from '../http/header-fields.ts';
import {
  checkMethodHeader,
  checkName,
  checkParams,
  headerMismatch,
  invalidParams,
  invalidRequest,
  modernRequest,
  readMessage,
  readMethod,
  readRequestMeta,
  refused,
  RefusalError,
  valueOf,
  type RequestHeaders,
  type ModernRequest,
  type ReadRequest,
  type WireMessage,
} from './message.ts';
import { isMethod, METHOD_NOT_FOUND, serviceOf, type MethodName } from './methods.ts';

/** What a client declares at `initialize`. It is kept nowhere: the client brings it back. */
export const dialectSession = z.strictObject({
  protocolVersion: z.string(),
  capabilities: jsonObject,
  clientInfo: jsonObject.nullable(),
});

type DialectSession = Readonly<z.infer<typeof dialectSession>>;

export interface DialectPolicy {
  readonly codec: Codec;
  readonly offersTasks: boolean;
  /** Seals a session for its caller. @returns `null` if it is too long for a header */
  readonly seal: (session: DialectSession, caller: Caller) => string | null;
  /** Opens what `seal` returned. @returns `null` if it is not one of this caller, or has expired */
  readonly open: (id: string, caller: Caller) => DialectSession | null;
}

/** A request to read, after the checks that need no session. */
interface Reading extends WireMessage {
  readonly http: RequestHeaders;
  readonly caller: Caller;
  readonly policy: DialectPolicy;
  readonly id: ClientRequestId;
  readonly method: string;
  readonly params: JsonObject;
}

/** Reads the body and headers of one POST. Never throws. */
export function readDialectRequest(
  http: RequestHeaders,
  bytes: Uint8Array,
  caller: Caller,
  policy: DialectPolicy,
): ReadRequest {
  const { codec } = policy;
  // Each dialect has its own members for that.
  const mayGoOn = () => true;
  return readMessage(http, bytes, mayGoOn, ({ body, id, accepts, headers }) => {
    if (!isJsonObject(body)) throw invalidRequest('the body must be one JSON-RPC message');
    const read = readMethod(codec.withMethod?.(body) ?? body, id);
    if (read === null || id === null) return { type: 'notification' };
    const accepted = codec.streams ? accepts : 'json';
    const reading: Reading = {
      http,
      headers,
      caller,
      policy,
      id,
      body,
      ...read,
      accepts: accepted,
    };
    if (headers.method.type !== 'absent') checkMethodHeader(headers, read.method);
    if (read.method === 'ping') return { type: 'known', id, result: {} };
    const request =
      read.method === 'initialize' ? readInitialize(reading) : readCall(reading, body);
    return { type: 'request', request };
  });
}

/** Answers `initialize` from what is known of the server, as `server/discover` is answered. */
function readInitialize({ caller, policy, id, params }: Reading): ModernRequest {
  const { protocolVersion: requested, capabilities, clientInfo } = params;
  if (typeof requested !== 'string') throw invalidParams(200, 'protocolVersion must be a string');
  const declared = {
    [Meta.clientCapabilities]: capabilities ?? null,
    ...(clientInfo === undefined ? {} : { [Meta.clientInfo]: clientInfo }),
  };
  const meta = readRequestMeta(declared, 200);
  // The revision of a draft is its own. Everything else gets the newest legacy one.
  const isKnown = isLegacyRevision(requested) || /^DRAFT-[\w.-]{1,32}$/.test(requested);
  const protocolVersion = isKnown ? requested : LEGACY_REVISIONS[0];
  const session: DialectSession = {
    protocolVersion,
    capabilities: legacyCapabilities(meta.profile, null),
    clientInfo: meta.clientInfo,
  };
  const sessionId = policy.seal(session, caller);
  if (sessionId === null) throw invalidParams(200, 'clientInfo is too long');
  const encode = (reply: CallReply): WireReply =>
    reply.kind === 'failed'
      ? failure(reply)
      : {
          members: { result: initializeResult(protocolVersion, reply.result, policy) },
          httpStatus: 200,
          headers: { 'mcp-session-id': sessionId },
        };
  const method = 'server/discover';
  return modernRequest({ id, method, params: {}, ...meta, accepts: 'json', encode });
}

/** Reads a request that is served as one of the final revision. */
function readCall(reading: Reading, body: JsonObject): ModernRequest {
  const { headers, policy, id, method: written, params: given, accepts } = reading;
  const { codec } = policy;
  const declared = readRequestMeta(envelopeOf(reading), 200);
  const request = codec.decode(body, written, given);
  const { method, params, beyond } = request;
  if (!isServed(method, written, policy)) throw new RefusalError(METHOD_NOT_FOUND_IN_BAND);
  // No draft has the tasks of the final revision, whatever the client declares.
  const { tasks: _final, ...profile } = codec.askable(declared.profile, written);
  const wantsTask = beyond?.wantsTask !== undefined && policy.offersTasks;
  const meta = { ...declared, profile: wantsTask ? { ...profile, tasks: true as const } : profile };
  if (headers.name.type !== 'absent') checkName(headers, method, params);
  checkParams(method, params, meta);
  const encode = (reply: CallReply): WireReply =>
    reply.kind === 'failed'
      ? failure(reply)
      : { members: codec.encode(shown(reply.result), request), httpStatus: 200 };
  const hasTasks = codec.hasTasks && policy.offersTasks;
  const shown = (result: JsonObject) =>
    method === 'tools/list' && hasTasks ? withTaskSupport(result) : result;
  return modernRequest({ id, method, params, ...meta, ...beyond, accepts, encode });
}

/** Returns the `_meta` of a request. What it does not declare comes from the session. */
function envelopeOf({ http, headers, caller, policy, params }: Reading): JsonObject {
  const meta = objectMember(params, '_meta') ?? {};
  const version = valueOf(headers.version, 'MCP-Protocol-Version');
  const claim = meta[Meta.protocolVersion] ?? version;
  if (version !== null && claim !== version) {
    throw headerMismatch(
      `MCP-Protocol-Version differs from params._meta["${Meta.protocolVersion}"]`,
    );
  }
  const id = valueOf(readHeader(http.rawHeaders, 'mcp-session-id'), 'Mcp-Session-Id');
  const session = id === null ? null : policy.open(id, caller);
  // transports (2025-11-25), "Session Management": the client initializes again.
  if (id !== null && session === null) {
    throw refused(404, ErrorCode.invalidRequest, 'Unknown or expired Mcp-Session-Id');
  }
  if (session === null) {
    if (meta[Meta.clientCapabilities] !== undefined) return meta;
    const problem = `expected an Mcp-Session-Id, or params._meta["${Meta.clientCapabilities}"]`;
    throw invalidRequest(problem);
  }
  const { protocolVersion, capabilities, clientInfo } = session;
  if (version !== null && version !== protocolVersion) {
    throw headerMismatch('MCP-Protocol-Version differs from the version of the session');
  }
  return {
    [Meta.clientCapabilities]: capabilities,
    ...(clientInfo === null ? {} : { [Meta.clientInfo]: clientInfo }),
    ...meta,
  };
}

/** The drafts have no discovery, subscriptions and task updates of the final revision. */
function isServed(
  method: string,
  written: string,
  { codec, offersTasks }: DialectPolicy,
): method is MethodName {
  if (!isMethod(method) || written === 'tasks/update') return false;
  const service = serviceOf(method);
  if (service === 'task') return codec.hasTasks && offersTasks;
  return service === 'interactive' || service === 'forward';
}

/** Tells clients that each tool can be called as a task (2025-11-25, tasks, "Tool-Level Negotiation"). */
function withTaskSupport(result: JsonObject): JsonObject {
  const { tools } = result;
  if (!Array.isArray(tools)) return result;
  const execution = { taskSupport: 'optional' };
  return {
    ...result,
    tools: tools.map((tool) => (isJsonObject(tool) ? { ...tool, execution } : tool)),
  };
}

/** To a client with a session, the statuses of the final revision would mean that its request or session is invalid. */
function failure(reply: CallReply): WireReply {
  const { httpStatus, ...rest } = finalReply(reply);
  return { ...rest, httpStatus: httpStatus === 400 || httpStatus === 404 ? 200 : httpStatus };
}

const METHOD_NOT_FOUND_IN_BAND = { ...METHOD_NOT_FOUND, httpStatus: 200 };

/**
 * Builds the result of `initialize` out of that of `server/discover`. Left out is what takes a session: log levels, and
 * notifications that belong to no request.
 */
function initializeResult(
  protocolVersion: string,
  discovered: JsonObject,
  { codec, offersTasks }: DialectPolicy,
): JsonObject {
  const capabilities = objectMember(discovered, 'capabilities') ?? {};
  const names = ['tools', 'prompts', 'resources', 'completions'].filter(
    (name) => capabilities[name] !== undefined,
  );
  const extensions = without(objectMember(capabilities, 'extensions') ?? {}, [TASKS]);
  const { instructions, _meta: meta } = discovered;
  const serverInfo = isJsonObject(meta) ? meta[Meta.serverInfo] : undefined;
  return {
    protocolVersion,
    capabilities: {
      ...Object.fromEntries(names.map((name) => [name, {}])),
      ...(codec.hasTasks && offersTasks
        ? { tasks: { cancel: {}, requests: { tools: { call: {} } } } }
        : {}),
      ...unlessEmpty('extensions', extensions),
    },
    serverInfo: serverInfo ?? { name: 'mrtr-gateway', version: VERSION },
    ...(instructions === undefined ? {} : { instructions }),
  };
}
