/**
 * Probes a server without side effects: it initializes a session, pings, lists, and ends the session. The
 * report says what the server supports and how to configure the gateway for it.
 */
import { sleep, type Clock } from '../lib/clock.ts';
import type { RouteConfig } from '../config/schema.ts';
import { asUpstreamFailure } from '../upstream/failure.ts';
import { onlyModern } from '../upstream/offerings.ts';
import { Upstream } from '../upstream/upstream.ts';
import { VERSION } from '../lib/version.ts';
import { advise } from './advice.ts';
import { CLOSING_MS, Deadline, RecordingHttpClient } from './ask.ts';
import { probeLegacy, probeModern } from './legacy.ts';
import { ProbeFailure, probeFailureOf, timedOut } from './probe-failure.ts';
import type { ProbeReport } from './report.ts';

export interface ProbeOptions {
  readonly upstream: RouteConfig['upstream'];
  readonly timeoutMs: number;
  /** Interrupts the probe. The session is still ended. */
  readonly signal: AbortSignal;
}

const PAGE_WAIT_MS = 2_000;
const MAX_BODY_BYTES = 4 * 1024 * 1024;
const CLIENT_INFO = { name: 'mrtr-gateway', version: VERSION };

/**
 * Probes a server for at most `timeoutMs`, and then ends the session.
 * @throws ProbeFailure if the server does not speak MCP or refuses the probe
 */
export async function probe(options: ProbeOptions, clock: Clock): Promise<ProbeReport> {
  const { upstream: config, timeoutMs, signal } = options;
  const deadline = new Deadline(clock, timeoutMs);
  const interrupt = () => deadline.expire();
  if (signal.aborted) interrupt();
  signal.addEventListener('abort', interrupt, { once: true });
  const bounded = {
    ...config,
    connectTimeoutMs: Math.min(config.connectTimeoutMs, timeoutMs),
    headersTimeoutMs: timeoutMs,
    maxBodyBytes: MAX_BODY_BYTES,
    maxEventBytes: MAX_BODY_BYTES,
    gatewayInfo: CLIENT_INFO,
  };
  const upstream = new Upstream(bounded, deadline);
  const http = new RecordingHttpClient(bounded, deadline);
  const url = shownUrl(config.url);
  try {
    const work = look(upstream, http, options, deadline);
    const late = lateAfter(deadline, clock, timeoutMs).then(() => {
      throw timedOut({ url, timeoutMs });
    });
    return await Promise.race([work, late]);
  } catch (error) {
    if (signal.aborted) throw new ProbeFailure('interrupted', 'interrupted');
    if (error instanceof ProbeFailure) throw error;
    const failure = asUpstreamFailure(error, false);
    const answers = failure.code === 'upstream_protocol_error';
    const page = answers ? await mediaTypeOfPage(http) : null;
    const gaveHeaders = Object.keys(config.headers).length > 0;
    throw probeFailureOf(failure, { url, timeoutMs, gaveHeaders, page });
  } finally {
    signal.removeEventListener('abort', interrupt);
    await Promise.all([upstream.close(), http.close()]);
  }
}

async function look(
  upstream: Upstream,
  http: RecordingHttpClient,
  { upstream: config, timeoutMs }: ProbeOptions,
  deadline: Deadline,
): Promise<ProbeReport> {
  const kind = await upstream.detect({});
  const target = { http, clientInfo: CLIENT_INFO, deadline, requestTimeoutMs: timeoutMs };
  // First, so that nothing follows the end of the session.
  const modern =
    kind === 'streamable-http' ? await upstream.modernSide({}).catch(() => null) : null;
  const found =
    kind === 'modern' ? await probeModern(target) : await probeLegacy({ ...target, kind });
  const both = modern === null ? {} : { modern: true, onlyModern: onlyModern(modern, found) };
  const findings = { format: 1, url: shownUrl(config.url), ...found, ...both } as const;
  const context = {
    headerNames: Object.keys(config.headers),
    query: config.url.search !== '',
  };
  return { ...findings, advice: advise(findings, context) };
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
