/**
 * Probes a server without side effects: it initializes a session, pings, lists, opens another one, and ends both. It calls
 * what the operator named, and nothing else. The report says what the server supports and how to configure the gateway for it.
 */
import { CONNECT_TIMEOUT_MS } from '../upstream/http/client.ts';
import { sleep, type Clock } from '../lib/clock.ts';
import { asOneLine } from '../lib/shown-text.ts';
import { MAX_PROCESSES } from '../config/schema/sessions.ts';
import type { HttpUpstreamConfig, RouteConfig, StdioUpstreamConfig } from '../config/schema.ts';
import { asUpstreamFailure, type UpstreamFailure } from '../model/upstream-failure.ts';
import { StdioUpstream } from '../upstream/stdio-upstream.ts';
import { onlyModern } from '../upstream/discovery/modern-side.ts';
import { Upstream } from '../upstream/upstream.ts';
import { VERSION } from '../lib/program.ts';
import { EMPTY_PROFILE } from '../protocol/translate/client-profile.ts';
import { advise } from './advice.ts';
import { CLOSING_MS, Deadline, RecordingHttpClient } from './ask.ts';
import { probeLegacy, probeModern, probeStdio } from './findings.ts';
import { ProbeFailure, probeFailureOf, timedOut } from './probe-failure.ts';
import type { RealCall } from './named-call.ts';
import { refuseUnknownTool } from './real-call.ts';
import type { ProbeReport } from './report.ts';

export interface ProbeOptions {
  readonly upstream: RouteConfig['upstream'];
  readonly timeoutMs: number;
  /** The call that shows whether a released call can be resumed; `null` to call nothing. */
  readonly call: RealCall | null;
  /** Interrupts the probe. The session is still ended. */
  readonly signal: AbortSignal;
}

const PAGE_WAIT_MS = 2_000;
const MAX_BODY_BYTES = 4 * 1024 * 1024;
const CLIENT_INFO = { name: 'mrtr-gateway', version: VERSION };

/** A server that is probed. */
export interface Probed {
  /** Its name in messages, without credentials. */
  readonly name: string;
  look(): Promise<ProbeReport>;
  /** Explains why that failed. */
  failureOf(failure: UpstreamFailure): Promise<ProbeFailure>;
  close(): Promise<unknown>;
}

/**
 * Probes a server for at most `timeoutMs`, and then ends the session.
 * @throws ProbeFailure if the server does not speak MCP or refuses the probe
 */
export async function probe(options: ProbeOptions, clock: Clock): Promise<ProbeReport> {
  const { upstream: config, timeoutMs, call, signal } = options;
  const deadline = new Deadline(clock, timeoutMs);
  const interrupt = () => deadline.expire();
  if (signal.aborted) interrupt();
  signal.addEventListener('abort', interrupt, { once: true });
  const probed =
    config.process === null
      ? overHttp(config, timeoutMs, call, deadline)
      : overStdio(config, timeoutMs, deadline);
  try {
    const late = lateAfter(deadline, clock, timeoutMs).then(() => {
      throw timedOut({ url: probed.name, timeoutMs });
    });
    return await Promise.race([probed.look(), late]);
  } catch (error) {
    if (signal.aborted) throw new ProbeFailure('interrupted', 'interrupted');
    if (error instanceof ProbeFailure) throw error;
    throw await probed.failureOf(asUpstreamFailure(error, false));
  } finally {
    signal.removeEventListener('abort', interrupt);
    await probed.close();
  }
}

function overHttp(
  config: HttpUpstreamConfig,
  timeoutMs: number,
  call: RealCall | null,
  deadline: Deadline,
): Probed {
  const bounded = {
    ...config,
    connectTimeoutMs: Math.min(CONNECT_TIMEOUT_MS, timeoutMs),
    headersTimeoutMs: timeoutMs,
    maxBodyBytes: MAX_BODY_BYTES,
    maxEventBytes: MAX_BODY_BYTES,
    gatewayInfo: CLIENT_INFO,
    random: Math.random,
  };
  const upstream = new Upstream(bounded, deadline);
  const http = new RecordingHttpClient(bounded, deadline);
  const url = shownUrl(config.url);
  const headerNames = Object.keys(config.headers);
  return {
    name: url,
    look: async () => {
      const kind = await upstream.detect({});
      const target = { http, clientInfo: CLIENT_INFO, deadline, requestTimeoutMs: timeoutMs };
      const openAnother = () =>
        upstream.openSession({ profile: EMPTY_PROFILE, clientInfo: null, headers: {} });
      // First, so that nothing follows the end of the session.
      const modern =
        kind === 'streamable-http' ? await upstream.modernSide({}).catch(() => null) : null;
      const found =
        kind === 'modern'
          ? await probeModern(target)
          : await probeLegacy({ ...target, kind, call, openAnother });
      // A server that is called nothing, too.
      if (call !== null) refuseUnknownTool(call, found.tools);
      const both = modern === null ? {} : { modern: true, onlyModern: onlyModern(modern, found) };
      const clockAheadMs = http.aheadMs;
      const findings = { format: 1, url, command: null, clockAheadMs, ...found, ...both } as const;
      const context = { headerNames, query: config.url.search !== '' };
      return { ...findings, advice: advise(findings, context) };
    },
    failureOf: async (failure) => {
      const answers = failure.code === 'upstream_protocol_error';
      const page = answers ? await mediaTypeOfPage(http) : null;
      const gaveHeaders = headerNames.length > 0;
      return probeFailureOf(failure, { url, timeoutMs, gaveHeaders, page });
    },
    close: () => Promise.all([upstream.close(), http.close()]),
  };
}

function overStdio(config: StdioUpstreamConfig, timeoutMs: number, deadline: Deadline): Probed {
  const bounded = { ...config, headersTimeoutMs: timeoutMs, maxEventBytes: MAX_BODY_BYTES };
  const upstream = new StdioUpstream(
    { ...bounded, maxProcesses: MAX_PROCESSES, gatewayInfo: CLIENT_INFO },
    deadline,
  );
  const { command, args, env } = config.process;
  const name = `the command ${command}`;
  return {
    name,
    look: async () => {
      const found = await probeStdio(upstream);
      const own = {
        format: 1,
        url: null,
        command: [command, ...args],
        clockAheadMs: null,
      } as const;
      const findings = { ...own, ...found };
      const context = { headerNames: [], query: false, variableNames: Object.keys(env) };
      return { ...findings, advice: advise(findings, context) };
    },
    failureOf: async ({ code, message }) => {
      const problem = asOneLine(message, 500);
      return code === 'upstream_timeout'
        ? new ProbeFailure('timeout', `${name}: ${problem}; check it, or raise --timeout`)
        : new ProbeFailure('not_mcp', `${name} does not speak MCP: ${problem}`);
    },
    close: () => upstream.close(),
  };
}

/** Resolves after the timeout and the time for ending the session. */
async function lateAfter(deadline: Deadline, clock: Clock, timeoutMs: number): Promise<void> {
  await sleep(deadline, timeoutMs);
  await sleep(clock, CLOSING_MS);
}

/** Reads the media type that a browser would get: users confuse a web page with the endpoint. */
async function mediaTypeOfPage(http: RecordingHttpClient): Promise<string | null> {
  const before = http.last('GET');
  const request = { method: 'GET', headers: { accept: '*/*' } } as const;
  await http.sendForStatus({ ...request, timeoutMs: PAGE_WAIT_MS }).catch(() => {});
  const page = http.last('GET');
  return page === before ? null : (page?.mediaType ?? null);
}

/** User names, passwords and queries can be credentials. */
function shownUrl({ origin, pathname }: URL): string {
  return `${origin}${pathname}`;
}
