/**
 * Finds out what a server supports: a legacy one over HTTP or stdio in one session, which is then ended, and one that speaks
 * 2026-07-28 itself without a session.
 */
import { EMPTY_PROFILE, type ClientProfile } from '../protocol/translate/client-profile.ts';
import { objectMember, type JsonObject } from '../protocol/json.ts';
import {
  AskingStyleDetector,
  BroadcastDetector,
} from '../upstream/discovery/broadcast-detector.ts';
import { DeferredHeaders } from '../upstream/quirks/deferred-headers.ts';
import { Session, type SessionOptions } from '../upstream/session/session.ts';
import { connector } from '../upstream/transport/factories.ts';
import { asUpstreamFailure } from '../model/upstream-failure.ts';
import { isRefusal, type LegacyTransport } from '../upstream/discovery/detection.ts';
import { ask, type ProbeTarget, type RecordingHttpClient } from './ask.ts';
import { readListings, type List, type Listings } from '../upstream/discovery/listings.ts';
import { ModernSide } from '../upstream/discovery/modern-side.ts';
import type { StdioUpstream } from '../upstream/stdio-upstream.ts';
import type {
  Findings,
  RealCallReport,
  ResumptionReport,
  ServerName,
  SessionsReport,
  StandaloneStreamReport,
} from './report.ts';
import type { RealCall } from './named-call.ts';
import { refuseUnknownTool, tryRealCall } from './real-call.ts';
import { tryResumption } from './resumption.ts';
import { Meta, MODERN_REVISION } from '../protocol/meta.ts';

/** Some servers offer more to a client with these capabilities. The probe refuses their questions. */
const ALL_CAPABILITIES: ClientProfile = {
  ...EMPTY_PROFILE,
  elicitationForm: true,
  elicitationUrl: true,
  sampling: true,
  samplingTools: true,
  roots: true,
};

const WITHOUT_ID_PING = 900_002;
const NOT_RESUMED: ResumptionReport = {
  eventIds: 'not-tried',
  lastEventId: 'not-tried',
  httpStatus: null,
};
const NO_SESSION_TRIED = {
  withoutId: 'not-tried',
  deleteStatus: null,
  second: 'not-tried',
} as const;
/** Longer than any probe: the session sends no pings of its own. */
const NO_PINGS_MS = 24 * 3_600_000;

interface LegacyProbe extends ProbeTarget {
  readonly kind: LegacyTransport;
  readonly call: RealCall | null;
  /** Opens another session. */
  readonly openAnother: () => Promise<Session>;
}

/** What is found out from the server itself. */
type ServerFindings = Omit<Findings, 'format' | 'url' | 'command' | 'clockAheadMs'>;

/** Probes the server. @throws UpstreamFailure if no session can be opened, ProbeFailure if the server lacks the tool to call */
export async function probeLegacy(probe: LegacyProbe): Promise<ServerFindings> {
  const { http, kind, deadline } = probe;
  const options = { deferredHeaders: new DeferredHeaders(), random: Math.random };
  const connect = connector(kind, http, deadline, options);
  const session = await Session.open(connect, sessionOptions(probe), deadline);
  try {
    const { protocolVersion } = session.initializeResult;
    const target = { ...probe, headers: messageHeaders(http.sessionId, protocolVersion) };
    const [listings, resumption, withoutId] = await Promise.all([
      listingsOf(session),
      kind === 'http-sse' ? NOT_RESUMED : tryResumption(target),
      pingWithoutId(probe, protocolVersion),
    ]);
    if (probe.call !== null) refuseUnknownTool(probe.call, listings.tools);
    const realCall = await realCallOf(probe, session);
    const standaloneStream = standaloneStreamOf(probe, session.standaloneStreamOpen);
    // At last: some servers end with it.
    const second = await secondOf(probe, session);
    await session.close();
    return {
      ...bridged(kind, session),
      sessions: sessionsOf(http, kind, { withoutId, second }),
      standaloneStream,
      resumption,
      realCall,
      ...listings,
    };
  } finally {
    if (!session.dead) await session.close();
  }
}

/** Asks a server over stdio, in one process. @throws UpstreamFailure if it speaks no revision that is known */
export async function probeStdio(upstream: StdioUpstream): Promise<ServerFindings> {
  const asked = { profile: ALL_CAPABILITIES, clientInfo: null, headers: {} };
  if (upstream.knownKind === 'modern-stdio') return probeModernStdio(upstream);
  const session = await upstream.openSession(asked).catch((error: unknown) => {
    if (asUpstreamFailure(error, false).code !== 'server_is_modern') throw error;
    return null;
  });
  if (session === null) return probeModernStdio(upstream);
  try {
    return {
      ...bridged('stdio', session),
      sessions: { kind: 'process', ...NO_SESSION_TRIED },
      standaloneStream: { offered: 'built-in', httpStatus: null },
      resumption: NOT_RESUMED,
      realCall: null,
      ...(await listingsOf(session)),
    };
  } finally {
    await session.close();
  }
}

async function probeModernStdio(upstream: StdioUpstream): Promise<ServerFindings> {
  const server = upstream.openModern();
  try {
    const found = await modernFindings((method, params) => upstream.ask(server, method, params));
    return {
      ...found,
      transport: 'stdio',
      sessions: { kind: 'none', ...NO_SESSION_TRIED },
      standaloneStream: { offered: 'built-in', httpStatus: null },
    };
  } finally {
    await server.close();
  }
}

/** Returns what a session shows of its server, which the gateway bridges. */
function bridged(transport: Findings['transport'], { initializeResult }: Session) {
  const { protocolVersion, capabilities, raw } = initializeResult;
  return {
    modern: false,
    served: 'bridged',
    onlyModern: [],
    transport,
    revision: protocolVersion,
    supportedRevisions: null,
    server: serverName(objectMember(raw, 'serverInfo')),
    capabilities,
  } as const;
}

function listingsOf(session: Session): Promise<Listings> {
  const { capabilities } = session.initializeResult;
  return readListings(capabilities, (method, params) => session.request(method, params, {}));
}

/** Reads the names of an `Implementation`, which can be malformed. */
function serverName(info: JsonObject | undefined): ServerName {
  const member = (name: string) => {
    const value = info?.[name];
    return typeof value === 'string' ? value.slice(0, 200) : null;
  };
  return { name: member('name'), title: member('title'), version: member('version') };
}

function sessionOptions({ clientInfo, requestTimeoutMs }: LegacyProbe): SessionOptions {
  return {
    profile: ALL_CAPABILITIES,
    clientInfo,
    headers: {},
    knownRevision: null,
    requestTimeoutMs,
    pingIntervalMs: NO_PINGS_MS,
    // Tries the standalone stream of a server without session ids, too.
    statefulWithoutSessionId: true,
    standaloneStream: true,
    // A probe has one session.
    detector: new BroadcastDetector({ now: () => 0, hasSiblings: false }),
    askingStyle: new AskingStyleDetector(),
  };
}

function messageHeaders(sessionId: string | null, revision: string): Record<string, string> {
  return {
    ...(sessionId === null ? {} : { 'mcp-session-id': sessionId }),
    'mcp-protocol-version': revision,
  };
}

async function realCallOf(
  { call, kind, deadline }: LegacyProbe,
  session: Session,
): Promise<RealCallReport | null> {
  if (call === null || kind === 'http-sse') return null;
  const late = { tool: call.tool, outcome: 'late', answerMs: null, problem: null } as const;
  return tryRealCall(session, deadline, call).catch(() => late);
}

/** Pings without a session id: a server with sessions has to refuse it (transports, "Session Management"). */
async function pingWithoutId(
  probe: LegacyProbe,
  revision: string,
): Promise<SessionsReport['withoutId']> {
  const { http } = probe;
  const ours = http.sessionId;
  if (ours === null) return 'not-tried';
  const headers = messageHeaders(null, revision);
  const question = { id: WITHOUT_ID_PING, method: 'ping', params: {}, headers };
  try {
    const answered = await ask(probe, question);
    const other = answered.sessionId;
    if (other !== null && other !== ours) await endSession(http, other, revision);
    const accepted = answered.reply !== null && 'result' in answered.reply;
    return accepted ? 'accepted' : 'refused';
  } catch {
    return 'no-answer';
  }
}

/** Ends a session that the server opened for that ping. */
async function endSession(
  http: RecordingHttpClient,
  sessionId: string,
  revision: string,
): Promise<void> {
  const headers = messageHeaders(sessionId, revision);
  await http.sendForStatus({ method: 'DELETE', headers, timeoutMs: 2_000 }).catch(() => {});
}

/** Opens a session beside the other one. */
async function secondOf(
  { http, kind, openAnother, deadline }: LegacyProbe,
  session: Session,
): Promise<SessionsReport['second']> {
  const hasNone = kind === 'streamable-http' && http.sessionId === null;
  if (hasNone || deadline.passed) return 'not-tried';
  const failure = await openAnother().then(
    (second) => second.close().then(() => null),
    (error: unknown) => asUpstreamFailure(error, false),
  );
  if (failure !== null && isRefusal(failure)) return 'refused';
  return session.request('ping', {}, {}).then(
    () => (failure === null ? 'accepted' : 'not-tried'),
    () => 'broke',
  );
}

function sessionsOf(
  http: RecordingHttpClient,
  kind: LegacyTransport,
  found: Pick<SessionsReport, 'withoutId' | 'second'>,
): SessionsReport {
  const { second } = found;
  if (kind === 'http-sse') return { kind: 'stream', ...NO_SESSION_TRIED, second };
  return {
    ...found,
    kind: http.sessionId === null ? 'none' : 'session-id',
    deleteStatus: http.last('DELETE')?.status ?? null,
  };
}

function standaloneStreamOf({ http, kind }: LegacyProbe, open: boolean): StandaloneStreamReport {
  if (kind === 'http-sse') return { offered: 'built-in', httpStatus: null };
  const status = http.first('GET')?.status ?? null;
  if (open) return { offered: 'yes', httpStatus: status };
  return { offered: status === null ? 'no-answer' : 'no', httpStatus: status };
}

/** Probes the server. @throws UpstreamFailure if it does not answer `server/discover` */
export async function probeModern(probe: ProbeTarget): Promise<ServerFindings> {
  const modern = new ModernSide(probe.http, probe.clientInfo);
  return modernFindings((method, params) =>
    modern.request(method, params, {}, probe.requestTimeoutMs),
  );
}

async function modernFindings(request: List): Promise<ServerFindings> {
  const reply = await request('server/discover', {});
  // An error reply proves the modern protocol as well.
  const discovered: JsonObject = 'result' in reply ? reply.result : {};
  const capabilities = objectMember(discovered, 'capabilities') ?? {};
  const versions = discovered['supportedVersions'];
  const meta = objectMember(discovered, '_meta') ?? {};
  return {
    modern: true,
    served: 'passed-through',
    onlyModern: [],
    transport: 'streamable-http',
    revision: MODERN_REVISION,
    supportedRevisions: Array.isArray(versions)
      ? versions.filter((version) => typeof version === 'string').slice(0, 20)
      : [],
    server: serverName(objectMember(meta, Meta.serverInfo)),
    capabilities,
    sessions: { kind: 'none', ...NO_SESSION_TRIED },
    standaloneStream: { offered: 'not-tried', httpStatus: null },
    resumption: NOT_RESUMED,
    realCall: null,
    ...(await readListings(capabilities, request)),
  };
}
