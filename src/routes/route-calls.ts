/** What the calls of a route are created with: its services and limits, and what decides which of them become tasks. */
import type { CallsOptions } from '../calls/calls.ts';
import type { CallLimits } from '../calls/machine/states.ts';
import { isRepeatable, type ToolCatalogue } from '../catalogue/tools.ts';
import type { RouteConfig } from '../config/schema.ts';
import { randomId } from '../lib/crypto.ts';
import { CLIENT_ROUNDS, MAX_STATE_ONLY } from '../model/known-clients.ts';
import type { Relay } from '../model/relay.ts';
import type { EdgeRequest, Promotion } from '../model/request.ts';
import { callId } from '../protocol/ids.ts';
import { principalName } from '../seal/principal-name.ts';
import type { LegacyServer } from '../upstream/legacy-server.ts';
import type { TaskPlaces } from './task-places.ts';
import type { SharedServices } from './shared-services.ts';
import type { RouteCatalogue } from './route-catalogue.ts';
import { peerOf, type RouteServer } from './route-server.ts';
import { longestCallMs } from './settings.ts';

/** What a server asks in one turn comes in one read, or right after it. */
const BATCH_WINDOW_MS = 1;
const BATCH_LIMIT_MS = 150;
/** How long a cancellation can take to reach the server. */
export const CANCEL_GRACE_MS = 2_000;
/** How long an outcome is kept, in ms. A client repeats a retry that it lost within its own timeout, mostly a minute. */
const REDELIVER_MS = 120_000;
/** More than a form shows at once, and too few to fill the result. */
const MAX_SHOWN_QUESTIONS = 16;
const MAX_OPEN_QUESTIONS = MAX_SHOWN_QUESTIONS + 64;
/** The shortest life of a task that its client asks for, in ms. */
const MIN_TASK_TTL_MS = 1_000;

/** When calls become tasks, as the operator has configured it for the route and for single tools. */
export type PromotionSettings = Pick<
  RouteConfig['tasks'],
  'promote' | 'tools' | 'afterMs' | 'ttlMs'
>;

/** Returns the options of the calls of a route. @param relay `null` if replicas do not reach each other */
export function callsOptions(
  config: RouteConfig,
  { upstream, pool }: RouteServer,
  { tools, taskTools }: RouteCatalogue,
  relay: Relay | null,
  promotion: CallsOptions['promotion'],
  shared: SharedServices,
): CallsOptions {
  const { seal } = shared.config;
  const audit = shared.sealKeys.ring('audit');
  return {
    routeId: config.id,
    pool,
    sealer: shared.sealer,
    replica: shared.replica.owner,
    relay,
    directory: shared.replica.directory,
    ownership: shared.replica.ownership,
    audience: seal.audience,
    limits: limitsOf(config),
    longestCallMs: longestCallMs(config),
    capacity: shared.capacity,
    onFull: () => shared.limited(config.id, 'limits.maxRunningCalls'),
    othersCanOpenPointers: seal.keys.length > 0,
    peer: peerOf(config),
    nameOf: (principal) => principalName(audit, principal),
    clock: shared.clock,
    log: shared.log,
    randomCallId: () => callId(randomId()),
    keyNames: config.questions.keyNames,
    caching: { ttlMs: config.caching.resourceTtlMs, cacheScope: config.caching.scope },
    mayServerIssueStates: () => upstream.mayIssueStates,
    mayReplay: (request) => mayReplay(request, config.continuation.replay, tools),
    promotion,
    demandsTask: (request) => taskTools.demandsTask(request),
    // A session that was released would still be the one that the server can have.
    leaveWhenParked: () => config.sessions.max > 1 && releases(config.parking.release, upstream),
    reattach: config.continuation.reattach,
  };
}

function mayReplay(
  request: EdgeRequest,
  { tools, annotated }: RouteConfig['continuation']['replay'],
  catalogue: ToolCatalogue,
): boolean | Promise<boolean> {
  if (request.method !== 'tools/call') return false;
  if (tools.includes(String(request.params['name']))) return true;
  return annotated && catalogue.toolOf(request).then(isRepeatable);
}

/** Tells whether a parked call is left to its server now. */
function releases(
  release: RouteConfig['parking']['release'],
  { deliversResumed }: LegacyServer,
): boolean {
  return release === 'when-resumable' || (release === 'auto' && deliversResumed);
}

/** Returns the limits of a call, with those that no key changes. */
function limitsOf({ calls, parking }: RouteConfig): CallLimits {
  return {
    batchWindowMs: BATCH_WINDOW_MS,
    batchLimitMs: BATCH_LIMIT_MS,
    maxDurationMs: calls.maxDurationMs,
    maxHoldMs: calls.maxHoldMs,
    parkTtlMs: parking.ttlMs,
    callTtlMs: parking.callTtlMs,
    cancelGraceMs: CANCEL_GRACE_MS,
    redeliverMs: REDELIVER_MS,
    maxRounds: parking.maxRounds,
    maxStateOnly: MAX_STATE_ONLY,
    clientRounds: CLIENT_ROUNDS,
    becomesTask: false,
    maxShownQuestions: MAX_SHOWN_QUESTIONS,
    maxOpenQuestions: MAX_OPEN_QUESTIONS,
  };
}

/**
 * Creates what decides which calls of a route become tasks.
 * @param places where tasks are kept; `null` if none are offered
 */
export function promotionBy(
  { tasks }: RouteConfig,
  places: TaskPlaces | null,
): CallsOptions['promotion'] {
  return (request) => {
    if (places === null) return null;
    const decided = promotionOf(request, tasks);
    return places.type === 'owners' ? onlyServerTasks(decided) : decided;
  };
}

/** Decides whether and when a call becomes a task. @returns `null` if it does not */
export function promotionOf(
  { method, params, profile, wantsTask }: EdgeRequest,
  { promote, tools, afterMs, ttlMs }: PromotionSettings,
): Promotion | null {
  // Only this method can have a task as its result ("Supported Methods").
  if (method !== 'tools/call' || profile.tasks !== true) return null;
  const tool = String(params['name']);
  const policy = Object.hasOwn(tools, tool) ? tools[tool] : promote;
  if (wantsTask !== undefined || policy === 'always') {
    const askedMs = Math.max(MIN_TASK_TTL_MS, wantsTask?.ttlMs ?? ttlMs);
    return { afterMs: 0, onQuestion: true, ttlMs: Math.min(askedMs, ttlMs) };
  }
  if (policy === 'never') return null;
  return { afterMs, onQuestion: policy === 'interactive', ttlMs };
}

/** Keeps of a decision what goes for calls that their server runs as legacy tasks. */
export function onlyServerTasks(promotion: Promotion | null): Promotion | null {
  return promotion && { ...promotion, afterMs: null, onQuestion: false };
}
