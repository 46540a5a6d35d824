/**
 * Decides whether a request of a client is let through to the server of a route: by the load of this process, by what the
 * server is known to be, and by how often and how many at a time its caller, its tool and the route are asked. What
 * continues a call, such as a retry with answers, was let through before, and is never refused.
 */
import type { Clock } from '../lib/clock.ts';
import { type Counts, Quota } from '../lib/counts.ts';
import { limited, type AdmissionLimit } from '../model/limited.ts';
import type { Failure } from '../model/request.ts';
import { RateLimit, type Rate, type RateStore } from './rates.ts';

interface ToolLimits {
  readonly rate: Rate | null;
  readonly ratePerPrincipal: Rate | null;
  readonly maxRunning: number | null;
}

export interface RouteLimits extends Omit<ToolLimits, 'maxRunning'> {
  readonly tools: Readonly<Record<string, ToolLimits>>;
}

export interface AdmissionOptions {
  /** The name of the route. */
  readonly route: string;
  readonly limits: RouteLimits;
  /** `null` for a server whose connection says nothing. */
  readonly circuit: Pick<CircuitBreaker, 'isOpen' | 'waitMs' | 'admit'> | null;
  /** Returns the limit by which this process needs no more work now; `null` if it can do more. */
  readonly overloadedBy: () => AdmissionLimit | null;
  /** `null` to count in memory. */
  readonly store: RateStore | null;
  /** What the workers of this gateway count together. */
  readonly counts: Counts;
  /** Called for each request that is refused. */
  readonly onRefused: (limit: AdmissionLimit) => void;
}

/** What a request is, as far as limits are concerned. */
export interface AdmissionRequest {
  readonly principalKey: string;
  /** `null` if it calls no tool. */
  readonly tool: string | null;
  /** Whether the request can have effects. */
  readonly isCall: boolean;
  /** Whether it continues a call that was let through. */
  readonly isRetry: boolean;
  /** Whether it is sent together with more, of which the last is what is tried at a server that was down. */
  readonly hasMore: boolean;
}

export type AdmissionVerdict =
  /** `done` is called when the request has its reply; `null` if nobody waits for that. */
  | { readonly type: 'admitted'; readonly done: (() => void) | null }
  | {
      readonly type: 'refused';
      readonly limit: AdmissionLimit;
      readonly retryAfterMs: number;
      readonly failure: Failure;
    };

interface Tool {
  readonly rates: readonly NamedRate[];
  /** `null` if any number of calls can run. */
  readonly running: Quota | null;
}

interface NamedRate {
  readonly name: AdmissionLimit;
  readonly limit: RateLimit;
  readonly isPerPrincipal: boolean;
}

const ADMITTED: AdmissionVerdict = { type: 'admitted', done: null };
/** When a place of a tool can be free, or this process can do more, in ms. Nobody knows. */
const BUSY_WAIT_MS = 1_000;

export class Admission {
  readonly #options: AdmissionOptions;
  readonly #rates: readonly NamedRate[];
  readonly #tools: ReadonlyMap<string, Tool>;

  constructor(options: AdmissionOptions) {
    const { limits, route, store, counts } = options;
    this.#options = options;
    this.#rates = ratesOf(limits, 'limits', route, store);
    this.#tools = new Map(
      Object.entries(limits.tools).map(([name, tool]) => [
        name,
        {
          rates: ratesOf(tool, 'limits.tools', `${route}:${name}`, store),
          running: quotaOf(`tool:${route}:${name}`, tool.maxRunning, counts),
        },
      ]),
    );
  }

  /** Whether every request is admitted now. */
  get isClear(): boolean {
    const { overloadedBy, circuit } = this.#options;
    const hasLimits = this.#rates.length + this.#tools.size > 0;
    return !hasLimits && circuit?.isOpen !== true && overloadedBy() === null;
  }

  /** Whether it depends on the tool that is called. */
  get limitsTools(): boolean {
    return this.#tools.size > 0;
  }

  /** Decides on a request. At once, unless something has to be counted. */
  admit(asked: AdmissionRequest): AdmissionVerdict | Promise<AdmissionVerdict> {
    const { overloadedBy, circuit } = this.#options;
    const tool = asked.tool === null ? undefined : this.#tools.get(asked.tool);
    if (asked.isRetry) {
      return { type: 'admitted', done: tool?.running?.takeAnyway(asked.principalKey) ?? null };
    }
    const overloaded = overloadedBy();
    if (overloaded !== null) return this.#refuse(asked, overloaded, BUSY_WAIT_MS);
    const circuitMs = circuit?.waitMs ?? 0;
    if (circuitMs > 0) return this.#refuse(asked, 'upstream.circuitBreaker', circuitMs);
    const rates = [...(tool?.rates ?? []), ...this.#rates];
    if (rates.length === 0) return this.#begin(asked, tool);
    return this.#count(asked, rates).then((refused) => refused ?? this.#begin(asked, tool));
  }

  /** Counts a request, by principal first: whoever exceeds its own rate takes nothing from others. */
  async #count(
    asked: AdmissionRequest,
    rates: readonly NamedRate[],
  ): Promise<AdmissionVerdict | null> {
    for (const isPerPrincipal of [true, false]) {
      for (const { name, limit } of rates.filter((one) => one.isPerPrincipal === isPerPrincipal)) {
        const waitMs = await limit.take(isPerPrincipal ? asked.principalKey : '');
        if (waitMs > 0) return this.#refuse(asked, name, waitMs);
      }
    }
    return null;
  }

  #begin(asked: AdmissionRequest, tool: Tool | undefined): AdmissionVerdict {
    const running = tool?.running ?? null;
    const done = running?.take(asked.principalKey) ?? null;
    if (running !== null && done === null) {
      return this.#refuse(asked, 'limits.tools.maxRunning', BUSY_WAIT_MS);
    }
    // Last, since only one request is tried at a server that was down: one that is then sent.
    const circuitMs = asked.hasMore ? 0 : (this.#options.circuit?.admit() ?? 0);
    if (circuitMs === 0) return done === null ? ADMITTED : { type: 'admitted', done };
    done?.();
    return this.#refuse(asked, 'upstream.circuitBreaker', circuitMs);
  }

  #refuse(
    { isCall }: AdmissionRequest,
    limit: AdmissionLimit,
    retryAfterMs: number,
  ): AdmissionVerdict {
    this.#options.onRefused(limit);
    const failure = limited(limit, retryAfterMs, isCall);
    return { type: 'refused', limit, retryAfterMs, failure };
  }
}

function ratesOf(
  limits: Omit<ToolLimits, 'maxRunning'>,
  section: 'limits' | 'limits.tools',
  name: string,
  store: RateStore | null,
): NamedRate[] {
  return (['ratePerPrincipal', 'rate'] as const).flatMap((key) => {
    const rate = limits[key];
    if (rate === null) return [];
    const limit = new RateLimit(rate, `${name}:${key}`, store);
    return { name: `${section}.${key}`, limit, isPerPrincipal: key === 'ratePerPrincipal' };
  });
}

function quotaOf(name: string, max: number | null, counts: Counts): Quota | null {
  return max === null ? null : new Quota(name, () => ({ max, maxPerPrincipal: Infinity }), counts);
}

/** What became of a request: the status of its response, or why it got none. */
type Outcome = number | Error;

export interface CircuitBreakerOptions {
  /** `null` if the server never counts as down. */
  readonly consecutiveFailures: number | null;
  /** Called when the server begins to count as down, with the last failure. */
  readonly onOpened: (failure: Outcome) => void;
  /** Called when it responds again. */
  readonly onClosed: () => void;
  /** Jitter in [0, 1), so that replicas do not try at the same time. */
  readonly random: () => number;
}

/** How long requests are refused at first, in ms. Then one is tried; if it fails, the time doubles. */
const OPEN_FOR_MS = 1_000;
/** No longer, so that clients soon notice that the server is back. */
const MAX_OPEN_FOR_MS = 30_000;
/** What proxies send for a server that is down. A healthy one can send 500 for a single request. */
const STATUSES_OF_FAILURES: readonly number[] = [502, 503, 504];

/** Finds out from the responses of a server whether it is down, so that it is left alone for a while. */
export class CircuitBreaker {
  readonly #options: CircuitBreakerOptions;
  readonly #clock: Pick<Clock, 'elapsed'>;
  #failures = 0;
  /** When the next request is tried, in ms of `Clock.elapsed`; `null` while the server counts as up. */
  #openUntilMs: number | null = null;
  #openForMs = 0;
  /** Whether a request was tried whose outcome is not known. */
  #isTrying = false;

  constructor(options: CircuitBreakerOptions, clock: Pick<Clock, 'elapsed'>) {
    this.#options = options;
    this.#clock = clock;
  }

  get isOpen(): boolean {
    return this.#openUntilMs !== null;
  }

  /** How long requests have to wait, in ms; 0 if one can be sent. */
  get waitMs(): number {
    if (this.#openUntilMs === null) return 0;
    return Math.max(0, Math.ceil(this.#openUntilMs - this.#clock.elapsed()));
  }

  /**
   * Lets a request through that is then sent, or refuses it. While the server counts as down, one request is tried in each
   * interval.
   * @returns how long to wait, in ms; 0 if the request can be sent
   */
  admit(): number {
    const { waitMs } = this;
    if (this.#openUntilMs !== null && waitMs === 0) {
      this.#isTrying = true;
      this.#stayOpen();
    }
    return waitMs;
  }

  /** Notes what became of a request. */
  readonly ended = (outcome: Outcome): void => {
    const { consecutiveFailures } = this.#options;
    if (consecutiveFailures === null) return;
    if (typeof outcome === 'number' && !STATUSES_OF_FAILURES.includes(outcome)) {
      return this.#close();
    }
    if (this.#openUntilMs !== null) {
      // Requests that were sent before say nothing new.
      if (!this.#isTrying) return;
      this.#isTrying = false;
      this.#openForMs = Math.min(this.#openForMs * 2, MAX_OPEN_FOR_MS);
      return this.#stayOpen();
    }
    this.#failures += 1;
    if (this.#failures < consecutiveFailures) return;
    this.#openForMs = OPEN_FOR_MS;
    this.#stayOpen();
    this.#options.onOpened(outcome);
  };

  #stayOpen(): void {
    const jitter = 0.75 + this.#options.random() / 2;
    this.#openUntilMs = this.#clock.elapsed() + this.#openForMs * jitter;
  }

  #close(): void {
    this.#failures = 0;
    this.#isTrying = false;
    if (this.#openUntilMs === null) return;
    this.#openUntilMs = null;
    this.#options.onClosed();
  }
}
