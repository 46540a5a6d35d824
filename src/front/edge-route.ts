/** What the modern edge gets from the rest of the gateway for one route: its services, and its settings. */
import { CALL_CANCELLED, failureReasonOf, reasonOf } from '../model/failures.ts';
import { traceOf, type CallReply, type EdgeRequest } from '../model/request.ts';
import { sleep, type Closed } from '../lib/clock.ts';
import type { Admission, AdmissionVerdict } from '../limits/admission.ts';
import { canRequireInput, isMethod } from '../edge/request/methods.ts';
import type { EdgeOptions, EdgeRoute, PassThrough } from '../edge/options.ts';
import { NO_TASKS } from '../edge/edge.ts';
import { readModernRequest, type EraPolicy } from '../edge/request/modern-request.ts';
import { parameterHeaderProblem } from '../edge/request/parameter-headers.ts';
import type { ToolCatalogue } from '../catalogue/tools.ts';
import { throttledLog } from '../ops/throttled-log.ts';
import { MAX_BUFFERED_BYTES } from '../edge/response-writer.ts';
import { STOPPED_REPLY } from '../routes/pending-requests.ts';
import { loggedTarget } from '../ops/tracing.ts';
import { annotatedParameters } from '../protocol/translate/header-annotations.ts';
import { objectMember } from '../protocol/json.ts';
import { identification } from './callers.ts';
import { modernPipe, type ModernServices } from './modern-pipe.ts';
import { rightsCheck } from './rights.ts';
import { serveTaskMethod } from '../tasks/methods.ts';
import { supportedVersions, type Route } from '../routes/route.ts';
import type { PublicServices } from '../routes/shared-services.ts';

/** How long a request waits until it is known what the server speaks. */
const ERA_WAIT_MS = 3_000;
/** The same for `server/discover`, which finds that out as well, and says what is certain if that takes longer. */
const DISCOVER_ERA_WAIT_MS = 100;

/** Connects the modern edge with what serves the requests of a route. */
export function edgeRoute(
  route: Route,
  shared: PublicServices,
  passThrough: PassThrough,
): EdgeRoute {
  const { clock, identity, openResponses, pendingRequests: pending } = shared;
  const { id, path } = route.config;
  const { tasks, rights } = route;
  const { upstream } = route.server;
  const pipe = modernPipe(route, shared);
  const pipeNow = () => (upstream.knownKind === 'modern-stdio' ? pipe : null);
  const bridge: ModernServices = {
    discover: (request) => route.discovery.discover(request),
    forward: (request, closed) => route.catalogue.lists.list(request, closed),
    call: (request, waiter) => {
      // Only a call whose client knows tasks can become one.
      const calls = request.profile.tasks === true && tasks !== null ? tasks : route.calls;
      return calls.serve(request, waiter);
    },
    task: async (request, waiter) =>
      tasks === null ? NO_TASKS : serveTaskMethod(tasks, request, waiter),
    listen: (...asked) => route.subscriptions.listen(...asked),
  };
  /** Serves through the pipe, also if the server turns out to need it. */
  const serve = (by: (services: ModernServices) => Promise<CallReply>): Promise<CallReply> => {
    if (pipe === null) return by(bridge);
    const known = pipeNow();
    if (known !== null) return by(known);
    return by(bridge).then((reply) => {
      const found = isChanged(reply) ? pipeNow() : null;
      return found === null ? reply : by(found);
    });
  };
  return {
    id,
    path,
    identify: identification(route, shared),
    isModern: ({ headers }, method) => {
      upstream.askAgain(headers);
      const known = upstream.knownKind;
      if (known !== null) return known === 'modern';
      const kind = upstream.detect(headers).catch(() => null);
      const waitMs = method === 'server/discover' ? DISCOVER_ERA_WAIT_MS : ERA_WAIT_MS;
      const found = Promise.race([kind, sleep(clock, waitMs)]);
      const isModern = found.then((era) => era === 'modern');
      return pending.add(isModern, false).finally(openResponses.open());
    },
    isLegacyNow: async ({ headers }) => {
      if (!upstream.doubt()) return false;
      const kind = await upstream.greet(headers).catch(() => null);
      return kind !== null && kind !== 'modern';
    },
    refusalOf: refusalsOf(route, shared, path),
    capabilities: (request) =>
      pipeNow() === null ? route.discovery.capabilitiesFor(request) : null,
    discover: (request) => serve(({ discover }) => discover(request)),
    forward: (request, closed) => {
      const list = async () => {
        const reply = await serve(({ forward }) => forward(request, closed));
        if (reply.kind === 'failed' || rights === null) return reply;
        return { ...reply, result: rights.shown(request.caller, reply.result) };
      };
      return pending.add(whenAdmitted(route.admission, request, closed, list), STOPPED_REPLY);
    },
    parameterHeaders: (request, rawHeaders) => {
      const modern = pipeNow();
      if (modern !== null) return modern.parameterHeaders(request, rawHeaders);
      return route.config.tools.parameterHeaders === 'strip'
        ? null
        : parameterHeaders(route.catalogue.tools, request, rawHeaders);
    },
    call: (request, waiter) =>
      whenAdmitted(route.admission, request, waiter.closed, () =>
        serve(({ call }) => call(request, waiter)),
      ),
    task: (request, waiter) => serve(({ task }) => task(request, waiter)),
    published: (reply, caller) => route.resource?.published(reply, caller) ?? reply,
    listen: (request, id, waiter, http) =>
      whenAdmitted(route.admission, request, waiter.closed, () => {
        const untilRefused = (end: () => void) => identity.untilRefused(http, end);
        return serve(({ listen }) => listen(request, id, waiter, untilRefused));
      }),
    passThrough,
  };
}

/** Tells whether the server turned out to speak 2026-07-28. */
function isChanged(reply: CallReply): boolean {
  return reply.kind === 'failed' && reasonOf(reply.failure) === 'upstream_changed';
}

/** Creates the check of what callers may do. @param path on which they come: that of the route, or of one of its dialects */
export function refusalsOf(
  route: Route,
  { config }: PublicServices,
  path: string,
): EdgeRoute['refusalOf'] {
  const check = rightsCheck(route, config, path);
  return ({ caller, method, params }) => check(caller, { method, params }, 'modern');
}

/** Serves a request of a modern client, if it is admitted. */
function whenAdmitted(
  admission: Admission,
  request: EdgeRequest,
  closed: Closed,
  serve: () => Promise<CallReply>,
): Promise<CallReply> {
  const { method, params, caller } = request;
  const verdict = admission.admit({
    principalKey: caller.principalKey,
    tool: method === 'tools/call' ? String(params['name']) : null,
    isCall: isMethod(method) && canRequireInput(method),
    isRetry: request.requestState !== null,
    hasMore: false,
  });
  const proceed = async (decided: AdmissionVerdict): Promise<CallReply> => {
    if (decided.type === 'refused') return { kind: 'failed', failure: decided.failure };
    try {
      if (closed.aborted) return { kind: 'failed', failure: CALL_CANCELLED };
      return await serve();
    } finally {
      decided.done?.();
    }
  };
  if (verdict instanceof Promise) return verdict.then(proceed);
  return verdict.type === 'admitted' && verdict.done === null ? serve() : proceed(verdict);
}

/** The settings of the modern edge of a route. */
export function edgeOptions(route: Route, shared: PublicServices): EdgeOptions {
  const { config, clock, log, tracer, openResponses, writes, metrics, connections } = shared;
  const { id } = route.config;
  const { upstream } = route.server;
  const policy: EraPolicy = {
    legacyClients: config.edge.legacyClients,
    supportedVersions: () => supportedVersions(config, upstream),
  };
  const refused = legacyRefusalLog(id, { clock, log });
  return {
    read: (request, body) => readModernRequest(request, body, policy),
    legacyRefused: ({ address }) => refused(address),
    maxBodyBytes: config.limits.maxBodyBytes,
    holdBytes: (owner) => shared.bodyBudget.open(owner),
    beforeBody: (response) => connections.continue(response),
    maxBufferedBytes: MAX_BUFFERED_BYTES,
    openResponses,
    writes,
    clock,
    log,
    tracer,
    observe: (request, reply, { status, code }, ms) => {
      const { method, params } = request;
      const target = method === 'tools/call' ? loggedTarget(method, params) : '';
      const isToolError = reply.kind === 'result' && reply.result['isError'] === true;
      const reason = failureReasonOf(reply);
      metrics.operation(id, { method, target, code, isToolError, reason }, ms);
      if (log.takes('edge.request')) {
        const failed = reason === null ? {} : { reason };
        const of = { route: id, ...traceOf(request) };
        log.event('edge.request', { ...of, method, status, code, ...failed, ms });
      }
    },
  };
}

/**
 * Creates a function to call with the address of each legacy client that a route refuses. It logs the latest of them, since
 * such a client says only that versions differ.
 */
export function legacyRefusalLog(
  route: string,
  { clock, log }: Pick<PublicServices, 'clock' | 'log'>,
): (client: string | undefined) => void {
  return throttledLog(clock, (address, requests) => {
    const client = address === undefined ? {} : { client: address };
    log.event('route.legacy_refused', { route, ...client, requests });
  });
}

/** Checks the headers that repeat a tool's parameters. @returns what is wrong; `null` if nothing is */
async function parameterHeaders(
  catalogue: ToolCatalogue,
  request: EdgeRequest,
  rawHeaders: readonly string[],
): Promise<string | null> {
  const schema = objectMember((await catalogue.toolOf(request)) ?? {}, 'inputSchema') ?? {};
  const args = objectMember(request.params, 'arguments') ?? {};
  return parameterHeaderProblem(annotatedParameters(schema) ?? [], args, rawHeaders);
}
