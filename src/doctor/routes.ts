/** The routes: whether their servers can be reached, what these speak, and whether the configuration fits that. */
import type { RouteConfig } from '../config/schema.ts';
import type { Clock } from '../lib/clock.ts';
import type { Environment } from '../lib/program.ts';
import { isOneSession } from '../probe/advice.ts';
import { lineAbout } from '../probe/print.ts';
import { ProbeFailure } from '../probe/probe-failure.ts';
import { probe } from '../probe/probe.ts';
import type { ProbeReport } from '../probe/report.ts';
import { finder, type Finding } from './finding.ts';

export interface RouteLook {
  /** How long the probe of one route can take, in ms. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  readonly clock: Clock;
  /** Of the gateway: servers over stdio get a part of it. */
  readonly env: Environment;
}

export interface RouteFindings {
  readonly finding: Finding;
  /** `null` if the server could not be probed. */
  readonly report: ProbeReport | null;
}

/** Probes the server of a route. It calls no tool. */
export async function checkRoute(route: RouteConfig, look: RouteLook): Promise<RouteFindings> {
  const { timeoutMs, signal, clock } = look;
  const { upstream } = route;
  const found = finder('route', route.path);
  try {
    const report = await probe({ upstream, timeoutMs, call: null, signal }, clock);
    const text = `${lineAbout(report)}${environmentOf(upstream, look.env)}`;
    const problems = problemsOf(report, route);
    const finding =
      problems.length === 0
        ? found.ok(text)
        : found.warning(`${text}. But ${problems.join('. And ')}`);
    return { finding, report };
  } catch (error) {
    if (!(error instanceof ProbeFailure)) throw error;
    return { finding: failureOf(error, route, look.env), report: null };
  }
}

function failureOf({ code, message }: ProbeFailure, route: RouteConfig, env: Environment): Finding {
  const { upstream, path } = route;
  const found = finder('route', path);
  if (code !== 'unauthorized' || upstream.process !== null) {
    return found.failed(`${message}${environmentOf(upstream, env)}`);
  }
  const [problem] = message.split(';');
  const hasOwn = upstream.headers['authorization'] !== undefined;
  // What clients bring is not here.
  if (upstream.authorization !== 'strip' && !hasOwn) {
    return found.warning(
      `${problem}: it is reachable and wants the credentials of a client, so that nothing else is known of it; "mrtr-gateway probe --header" can give some`,
    );
  }
  const wayOut = hasOwn
    ? 'it does not accept the Authorization of upstream.headers'
    : 'give it credentials in upstream.headers, since those of clients stay at the gateway (upstream.authorization)';
  return found.failed(`${problem}; ${wayOut}`);
}

/** Names the variables that a server over stdio gets. */
function environmentOf({ process }: RouteConfig['upstream'], env: Environment): string {
  if (process === null) return '';
  const inherited = process.inherited.filter((name) => env[name] !== undefined);
  const names = [...new Set([...inherited, ...Object.keys(process.env)])];
  return `; its environment: ${names.join(', ') || 'empty'}`;
}

/** Says where the configuration does not fit the server, and what to do. */
function problemsOf(report: ProbeReport, { upstream, sessions, parking }: RouteConfig): string[] {
  const { served, tools, advice } = report;
  const problems: string[] = [];
  if (tools.problem !== null) problems.push(`its tools cannot be read (${tools.problem})`);
  if (served !== 'bridged') return problems;
  if (isOneSession(report.sessions) && sessions.max !== 1) {
    problems.push('it stands one session at a time: set sessions.max: 1');
  }
  const isStateful = upstream.process !== null || upstream.statefulWithoutSessionId;
  if (advice.statefulWithoutSessionId && !isStateful) {
    problems.push(
      'without a session id its tools cannot ask: if it is a single process, set upstream.statefulWithoutSessionId: true',
    );
  }
  if (parking.release === 'when-resumable' && advice.releaseWhenResumable === 'impossible') {
    problems.push('it resumes nothing: parking.release: when-resumable has no effect');
  }
  return problems;
}
