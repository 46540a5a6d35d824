/** Metrics for Prometheus, which follow its naming rules. Labels never identify a user or a call. */
import { Counter, Registry } from 'prom-client';
import type { Clock } from '../lib/clock.ts';
import { ErrorCode } from '../protocol/json-rpc.ts';
import { INVALID_REQUEST_STATE_REASONS } from '../seal/invalid-request-state.ts';
import { BatchedCounter, DurationHistogram } from './request-metrics.ts';
import {
  metricsOfProcess,
  registerGauges,
  registerReloads,
  type ReloadState,
  type Gauges,
} from './gauges.ts';
import { Outcomes } from './live/outcomes.ts';
import { CLOCK_REFUSALS, DENIALS, RECOVERIES, type DenialReason } from './request-events.ts';
import { isClientFault } from './tracing.ts';

/** Bucket boundaries of the OpenTelemetry conventions for MCP. */
const BUCKETS_SECONDS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300];
/** People take longer than servers. */
const HUMAN_BUCKETS_SECONDS = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 14_400];
const SESSION_BUCKETS_SECONDS = [1, 5, 30, 60, 300, 900, 3_600, 14_400, 86_400];

/** Error codes with their own series. */
const NAMED_CODES: ReadonlySet<string> = new Set(Object.values(ErrorCode).map(String));
/** How many tools of a route have series of their own. */
const MAX_TOOLS = 100;
/** The ends of calls that a server, a client or the gateway decides, for series that begin with zero. */
const CALL_ENDS = [
  'complete',
  'failed',
  'declined',
  'lost',
  'timeout',
  'refused',
  'cancelled',
  'stopped',
  'left',
  'abandoned',
];

export type MetricsSnapshot = Awaited<ReturnType<Registry['getMetricsAsJSON']>>;

/** A request of a client, and its reply. */
export interface ServedRequest {
  readonly method: string;
  /** The tool, prompt or resource. */
  readonly target: string;
  /** The JSON-RPC error code; `null` for a result. */
  readonly code: number | null;
  /** Whether the result says of itself that the tool failed. */
  readonly isToolError: boolean;
  /** Why the gateway failed the request, from a closed list; `null` if it did not. */
  readonly reason: string | null;
}

/** The words of labels that folders below this one define. */
export interface CountedWords {
  /** What refuses requests. */
  readonly limits: readonly string[];
  /** Why requests fail. */
  readonly failures: readonly string[];
  /** What becomes of requests that are relayed. Empty if none is. */
  readonly hops: readonly string[];
}

const OPERATION_LABELS = [
  'mcp_method_name',
  'gen_ai_tool_name',
  'route',
  'rpc_response_status_code',
  'error_type',
] as const;

export class Metrics {
  readonly #registry = new Registry();
  readonly #operations = this.#durations(
    'mcp_server_operation_duration_seconds',
    'Duration of MCP requests from clients',
    OPERATION_LABELS,
  );
  readonly #clientOperations = this.#durations(
    'mcp_client_operation_duration_seconds',
    "The server's own time for MCP requests, without the time that users take",
    OPERATION_LABELS,
  );
  readonly sessions = this.#durations(
    'mcp_client_session_duration_seconds',
    'Duration of sessions with servers that have ended',
    ['route'],
    SESSION_BUCKETS_SECONDS,
  );
  readonly answers = this.#durations(
    'mrtr_gateway_answer_duration_seconds',
    'Time that users took to answer',
    ['route'],
    HUMAN_BUCKETS_SECONDS,
  );
  readonly refusals = this.#counter(
    'mrtr_gateway_seal_rejections_total',
    'Refused requestState values, by reason',
    ['reason'],
  );
  readonly resumes = this.#counter(
    'mrtr_gateway_resumes_total',
    'Retries of parked calls, by the recovery that served them',
    ['route', 'recovered_by'],
  );
  readonly rounds = this.#counter(
    'mrtr_gateway_rounds_total',
    'InputRequiredResult responses sent to clients',
    ['route'],
  );
  readonly answersAhead = this.#counter(
    'mrtr_gateway_answers_ahead_total',
    'Questions answered with the inputResponses of the first request of the call',
    ['route'],
  );
  readonly clockRefusals = this.#counter(
    'mrtr_gateway_clock_refusals_total',
    'Refusals caused by clock differences, by kind',
    ['of'],
  );
  readonly #ends = new BatchedCounter({
    name: 'mrtr_gateway_call_ends_total',
    help: 'Calls that ended, by how they ended',
    labels: ['route', 'end'],
    registry: this.#registry,
  });
  readonly #failures = this.#counter(
    'mrtr_gateway_failures_total',
    'Requests that the gateway failed, by data.reason',
    ['route', 'reason'],
  );
  readonly #limited = this.#counter(
    'mrtr_gateway_limited_requests_total',
    'Requests refused by a limit, by limit',
    ['route', 'limit'],
  );
  readonly #denied = this.#counter(
    'mrtr_gateway_rights_refusals_total',
    'Requests refused by the rules of a route, by reason',
    ['route', 'reason'],
  );
  readonly hops = this.#counter(
    'mrtr_gateway_relay_hops_total',
    'Requests relayed to another replica, by outcome',
    ['route', 'outcome'],
  );
  readonly passed = this.#counter(
    'mrtr_gateway_passed_requests_total',
    'Requests passed through to the server',
    ['route'],
  );
  readonly passFailures = this.#counter(
    'mrtr_gateway_passed_failures_total',
    'Requests passed through that the server did not respond to',
    ['route'],
  );
  readonly #responses = new BatchedCounter({
    name: 'mrtr_gateway_http_responses_total',
    help: 'HTTP responses on the public listener, by status',
    labels: ['status'],
    registry: this.#registry,
  });
  /** The tools that have series of their own, by route. Clients can make up any name. */
  readonly #tools = new Map<string, Set<string>>();
  /** Routes whose server could not be reached when it was last needed. */
  readonly #down = new Set<string>();

  /** What the live page shows. */
  readonly outcomes: Outcomes;

  constructor(clock: Pick<Clock, 'now'>, gauges: Gauges) {
    this.outcomes = new Outcomes(clock);
    registerGauges(this.#registry, gauges, this.#down);
    // They count from here on.
    metricsOfProcess();
  }

  /** Shows what becomes of reloads, if that is decided in this process. */
  showReloads(state: () => ReloadState): void {
    registerReloads(this.#registry, state);
  }

  /** Creates all series with zero: an alert on an increase would miss the first event of a new series. */
  begin(routes: readonly string[], { limits, failures, hops }: CountedWords): void {
    for (const reason of INVALID_REQUEST_STATE_REASONS) this.refusals.inc({ reason }, 0);
    for (const of of CLOCK_REFUSALS) this.clockRefusals.inc({ of }, 0);
    for (const route of routes) {
      this.rounds.inc({ route }, 0);
      this.answersAhead.inc({ route }, 0);
      this.passed.inc({ route }, 0);
      for (const limit of limits) this.#limited.inc({ route, limit }, 0);
      for (const reason of failures) this.#failures.inc({ route, reason }, 0);
      for (const reason of DENIALS) this.#denied.inc({ route, reason }, 0);
      for (const outcome of hops) this.hops.inc({ route, outcome }, 0);
      this.passFailures.inc({ route }, 0);
      for (const recoveredBy of [...RECOVERIES, 'lost'] as const)
        this.resumes.inc({ route, recovered_by: recoveredBy }, 0);
      for (const end of CALL_ENDS) this.#ends.add(0, route, end);
    }
  }

  /** Records a request of a client. The method is from a closed list. A fault of the client is not an error. */
  operation(
    route: string,
    { method, target, code, isToolError, reason }: ServedRequest,
    ms: number,
  ): void {
    const status = codeLabel(code);
    const isFault = code === null || isClientFault(code);
    const errorType = isToolError ? 'tool_error' : isFault ? '' : status;
    const tool = this.#toolLabel(route, method, target);
    this.#operations.observe(ms, method, tool, route, status, errorType);
    if (reason !== null) this.#failures.inc({ route, reason });
  }

  /** Records a request to the server. @param errorType a JSON-RPC error code, or a word; `null` for a success */
  clientOperation(
    route: string,
    method: string,
    target: string,
    errorType: string | null,
    ms: number,
  ): void {
    const isCode = errorType !== null && /^-?\d+$/.test(errorType);
    const status = isCode ? codeLabel(Number(errorType)) : '';
    const error = isCode ? status : (errorType ?? '');
    const tool = this.#toolLabel(route, method, target);
    this.#clientOperations.observe(ms, method, tool, route, status, error);
  }

  /** Gives series of their own to tools that the server has, as far as there is room. */
  learnTools(route: string, names: readonly string[]): void {
    let known = this.#tools.get(route);
    if (known === undefined) this.#tools.set(route, (known = new Set()));
    for (const name of names) if (known.size < MAX_TOOLS) known.add(name);
  }

  /** Records a request that a limit refused. */
  limited(route: string, limit: string): void {
    this.#limited.inc({ route, limit });
    this.outcomes.add(route, 'refused', 1);
  }

  /** Records a request that the rules of its route refused. */
  denied(route: string, reason: DenialReason): void {
    this.#denied.inc({ route, reason });
    this.outcomes.add(route, 'refused', 1);
  }

  callEnded(route: string, end: string): void {
    this.#ends.add(1, route, end);
  }

  upstreamUp(route: string, isUp: boolean): void {
    if (isUp) this.#down.delete(route);
    else this.#down.add(route);
  }

  /** Whether the server of a route could not be reached when it was last needed. */
  isDown(route: string): boolean {
    return this.#down.has(route);
  }

  responded(status: number): void {
    this.#responses.add(1, String(status));
  }

  async text(): Promise<string> {
    return (await this.#registry.metrics()) + (await metricsOfProcess().metrics());
  }

  /** Returns all values as plain data, to be summed over processes. */
  async snapshot(): Promise<MetricsSnapshot> {
    const ofProcess = await metricsOfProcess().getMetricsAsJSON();
    return [...(await this.#registry.getMetricsAsJSON()), ...ofProcess];
  }

  #toolLabel(route: string, method: string, target: string): string {
    if (method !== 'tools/call') return '';
    return this.#tools.get(route)?.has(target) === true ? target : 'other';
  }

  #durations<const Label extends string>(
    name: string,
    help: string,
    labels: readonly Label[],
    buckets: readonly number[] = BUCKETS_SECONDS,
  ): DurationHistogram<Label> {
    return new DurationHistogram({ name, help, labels, buckets, registry: this.#registry });
  }

  #counter<Label extends string>(name: string, help: string, labelNames: Label[]): Counter<Label> {
    return new Counter({ name, help, labelNames, registers: [this.#registry] });
  }
}

/** Limits the values of the label: servers can send any code, and each value is a new series for ever. */
function codeLabel(code: number | null): string {
  if (code === null) return '';
  const label = String(code);
  return NAMED_CODES.has(label) ? label : 'other';
}
