/** Probes a server that speaks 2026-07-28 itself: it has no sessions. */
import { objectMember, type JsonObject } from '../protocol/json/json.ts';
import type { JsonRpcReply } from '../protocol/json-rpc.ts';
import { Meta } from '../protocol/meta.ts';
import { MODERN_REVISION } from '../protocol/revisions.ts';
import { UpstreamFailure } from '../upstream/failure.ts';
import { ask, type ProbeTarget } from './ask.ts';
import { serverName } from './legacy.ts';
import { readListings } from './listings.ts';
import type { Findings } from './report.ts';

/** Probes the server. @throws UpstreamFailure if it does not answer `server/discover` */
export async function probeModern(probe: ProbeTarget): Promise<Omit<Findings, 'format' | 'url'>> {
  let lastId = 0;
  const request = (method: string, params: JsonObject) =>
    send(probe, (lastId += 1), method, params);
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

async function send(
  probe: ProbeTarget,
  id: number,
  method: string,
  params: JsonObject,
): Promise<JsonRpcReply> {
  const _meta = {
    [Meta.protocolVersion]: MODERN_REVISION,
    [Meta.clientInfo]: probe.clientInfo,
    [Meta.clientCapabilities]: {},
  };
  const headers = { 'mcp-protocol-version': MODERN_REVISION, 'mcp-method': method };
  const question = { id, method, params: { ...params, _meta }, headers };
  const answered = await ask(probe, question);
  if (answered.reply !== null) return answered.reply;
  throw new UpstreamFailure('upstream_protocol_error', `HTTP ${answered.status}`, {
    mayHaveActed: false,
    httpStatus: answered.status,
  });
}
