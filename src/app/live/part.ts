/** What this process tells the live page, and the sum of what processes told, which the page shows. */
import type { Config } from '../../config/schema.ts';
import type { Clock } from '../../lib/clock.ts';
import { VERSION } from '../../lib/program.ts';
import type { Readiness } from '../../ops/admin.ts';
import type { Metrics } from '../../ops/metrics.ts';
import {
  sumParts,
  type LiveSnapshot,
  shownCalls,
  shownName,
  shownProblem,
  shownRoutes,
  type LivePart,
  type LiveRoute,
} from '../../ops/live/snapshot.ts';
import type { Route } from '../../routes/route.ts';
import type { Routes } from '../../routes/routes.ts';
import type { OperatorReply } from './operator.ts';

const PROCESS_CHARACTERS = 6;
/** How many calls of each route are looked at. Of those, the longest waiting are shown. */
const MAX_CALLS_OF_ROUTE = 100;

export interface LivePartOptions {
  /** The name of this process in pointers. */
  readonly instance: string;
  readonly status: Readiness['status'];
  readonly routes: Routes;
  readonly metrics: Metrics;
  /** Where this process listens for clients; `null` before it does. */
  readonly origin: string | null;
}

/** Collects what this process knows now. */
export function livePartOf(options: LivePartOptions): LivePart {
  const { instance, status, routes, metrics } = options;
  const process = processName(instance);
  const { latest, configured } = routes;
  const waiting = latest.map(({ calls }) => calls.live(MAX_CALLS_OF_ROUTE));
  const sessions = routes.sum(({ pool }) => pool.size);
  return {
    process,
    status,
    bucket: metrics.outcomes.bucket,
    routes: shownRoutes(configured.map((route) => liveRouteOf(route, sessions, options))),
    calls: shownCalls(
      waiting.flatMap(({ calls }) => calls.map((call) => ({ ...call, owner: process }))),
    ),
    allRoutes: configured.length,
    allCalls: waiting.reduce((sum, { all }) => sum + all, 0),
  };
}

/** Shortens the name of a process. */
function processName(instance: string): string {
  return shownName(instance.slice(0, PROCESS_CHARACTERS));
}

function liveRouteOf(
  { config, server, calls, tasks }: Route,
  sessions: ReadonlyMap<string, number>,
  { metrics, origin }: LivePartOptions,
): LiveRoute {
  const { id, path, publicUrl } = config;
  const url = publicUrl?.href ?? (origin === null ? '' : `${origin}${path}`);
  return {
    id: shownName(id),
    path: shownName(path),
    // A part of a URL is none.
    url: shownProblem(url) === url ? url : '',
    server: shownProblem(server.availability.status),
    isUp: server.availability.ready && !metrics.isDown(id),
    circuitsOpen: Number(server.http?.circuit.isOpen ?? false),
    sessions: sessions.get(id) ?? 0,
    maxSessions: config.sessions.max,
    running: calls.running,
    parked: calls.parked,
    released: calls.released,
    tasks: Object.fromEntries(tasks?.byStatus ?? []),
    recent: metrics.outcomes.of(id),
  };
}

/** Sums what processes told. */
export function snapshotOf(
  { parts, missing }: OperatorReply,
  clock: Pick<Clock, 'now'>,
  config: Config,
): LiveSnapshot {
  const actions: LiveSnapshot['actions'] = mayStop(config) ? ['cancel'] : [];
  return sumParts(parts, missing, { version: VERSION, atMs: clock.now(), actions });
}

/** Tells whether calls can be cancelled from the live page. */
export function mayStop({ adminActions }: Config): boolean {
  return adminActions === 'cancel';
}
