/** Probes a server that speaks 2026-07-28 itself: it has no sessions. */
import { objectMember, type JsonObject } from '../protocol/json/json.ts';
import type { JsonRpcReply } from '../protocol/json-rpc.ts';
import { Meta } from '../protocol/meta.ts';
import { MODERN_REVISION } from '../protocol/revisions.ts';
import type { HttpClient } from '../upstream/http/client.ts';
import { UpstreamFailure } from '../upstream/failure.ts';
import { ask } from './ask.ts';
import type { Deadline } from './deadline.ts';
import { serverName } from './legacy.ts';
import { readListings } from './listings.ts';
import type { Findings } from './report.ts';

export interface ModernProbe {
  readonly http: HttpClient;
  readonly clientInfo: JsonObject;
  readonly deadline: Deadline;
  /** The timeout of one request. */
  readonly requestTimeoutMs: number;
}

/** Probes the server. @throws UpstreamFailure if it does not answer `server/discover` */
export async function probeModern(probe: ModernProbe): Promise<Omit<Findings, 'format' | 'url'>> {
  const nextId = counter();
  const request = (method: string, params: JsonObject) => send(probe, nextId(), method, params);
  const reply = await request('server/discover', {});
  // An error reply proves the modern protocol as well.
  const discovered: JsonObject = 'result' in reply ? reply.result : {};
  const capabilities = objectMember(discovered, 'capabilities') ?? {};
  const versions = discovered['supportedVersions'];
  const meta = objectMember(discovered, '_meta') ?? {};
  return {
    modern: true,
    transport: 'streamable-http',
    revision: MODERN_REVISION,
    supportedRevisions: Array.isArray(versions)
      ? versions.filter((version) => typeof version === 'string').slice(0, 20)
      : [],
    server: serverName(objectMember(meta, Meta.serverInfo)),
    capabilities,
    sessions: { kind: 'none', withoutId: 'not-tried', deleteStatus: null },
    standaloneStream: { offered: 'not-tried', httpStatus: null },
    resumption: { eventIds: 'not-tried', lastEventId: 'not-tried', httpStatus: null },
    ...(await readListings(capabilities, request)),
  };
}

function counter(): () => number {
  let id = 0;
  return () => (id += 1);
}

async function send(
  { http, clientInfo, deadline, requestTimeoutMs }: ModernProbe,
  id: number,
  method: string,
  params: JsonObject,
): Promise<JsonRpcReply> {
  const _meta = {
    [Meta.protocolVersion]: MODERN_REVISION,
    [Meta.clientInfo]: clientInfo,
    [Meta.clientCapabilities]: {},
  };
  const headers = { 'mcp-protocol-version': MODERN_REVISION, 'mcp-method': method };
  const question = { id, method, params: { ...params, _meta }, headers };
  const answered = await deadline.within(requestTimeoutMs, (signal) => ask(http, question, signal));
  if (answered.reply !== null) return answered.reply;
  throw new UpstreamFailure('upstream_protocol_error', `HTTP ${answered.status}`, {
    mayHaveActed: false,
    httpStatus: answered.status,
  });
}
