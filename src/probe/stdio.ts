/** Probes a server over stdio: starts one process, and ends it. */
import { objectMember, type JsonObject } from '../protocol/json.ts';
import type { StdioUpstream } from '../upstream/stdio-upstream.ts';
import { ALL_CAPABILITIES, serverName, type ServerFindings } from './legacy.ts';
import { readListings } from '../upstream/discovery/listings.ts';

/** Probes the server. @throws UpstreamFailure if no session can be opened */
export async function probeStdio(upstream: StdioUpstream): Promise<ServerFindings> {
  const asked = { profile: ALL_CAPABILITIES, clientInfo: null, headers: {} };
  const session = await upstream.openSession(asked);
  try {
    const { protocolVersion, capabilities, raw } = session.initializeResult;
    const list = (method: string, params: JsonObject) => session.request(method, params, {});
    return {
      modern: false,
      served: 'bridged',
      onlyModern: [],
      transport: 'stdio',
      revision: protocolVersion,
      supportedRevisions: null,
      server: serverName(objectMember(raw, 'serverInfo')),
      capabilities,
      sessions: { kind: 'process', withoutId: 'not-tried', deleteStatus: null },
      standaloneStream: { offered: 'built-in', httpStatus: null },
      resumption: { eventIds: 'not-tried', lastEventId: 'not-tried', httpStatus: null },
      realCall: null,
      ...(await readListings(capabilities, list)),
    };
  } finally {
    await session.close();
  }
}
