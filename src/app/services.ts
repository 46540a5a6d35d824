/** Creates what the routes of a process share, whatever the active configuration is (`shared-services.ts` has the types). */
import { Capacity, type ParkingLimit } from '../calls/registry.ts';
import type { Config } from '../config/schema.ts';
import { ByteBudget } from '../lib/byte-budget.ts';
import { LocalCounts, partOfAnonymous, Quota, type QuotaLimits } from '../lib/counts.ts';
import { OpenResponses, WriteBurst } from '../lib/http.ts';
import type { Log } from '../ops/log.ts';
import { openTracer } from '../ops/open-tracer.ts';
import type { LimitName } from '../model/limited.ts';
import { ANONYMOUS_KEY } from '../model/request.ts';
import type { SecretKey } from '../seal/key-ring.ts';
import { SealKeys } from '../seal/seal-keys.ts';
import { createSealer } from '../seal/seal.ts';
import { observeRelayed } from '../routes/observed-relay.ts';
import { limitLog } from '../ops/throttled-log.ts';
import { MemoryMonitor, processesOf, processMemory, usableMemory } from '../limits/memory.ts';
import { PendingRequests } from '../routes/pending-requests.ts';
import { joinReplicas, type JoinedReplica, type WorkerShares } from './replica.ts';
import { configuredKeys, generateSealKey } from '../routes/settings.ts';
import type { SharedServices } from '../routes/shared-services.ts';
import type { Telemetry } from './telemetry.ts';
import type { Clock } from '../lib/clock.ts';
import type { RateStore } from '../limits/rates.ts';

const MAX_REQUEST_STATE_BYTES = 32 * 1024;
/** The parts of the memory that `limits.maxMemoryPercent` allows for bytes that wait for their end. */
const PART_FOR_MESSAGES = 1 / 2;
const PART_FOR_BODIES = 1 / 4;
const LISTENER_LIMITS = { max: 1_000, maxPerPrincipal: 100 };

export interface Services {
  readonly shared: SharedServices & { readonly replica: JoinedReplica };
  /** Opens what a configuration needs that earlier ones did not. */
  prepare(config: Config): Promise<void>;
  /** Activates a configuration. Limits and the level of the log are its own from here on. */
  use(config: Config): void;
  close(): void;
}

/**
 * Joins the other replicas, and creates what the routes share.
 * @throws StartFailure if it cannot listen for replicas, or if Redis does not respond in time
 */
export async function openServices(
  config: Config,
  telemetry: Telemetry,
  shares: WorkerShares | null,
  memoryBytes = usableMemory(),
): Promise<Services> {
  let inForce = config;
  const { routes, fleetClock, clock, log, metrics } = telemetry;
  const openResponses = new OpenResponses();
  const counts = shares?.counts ?? new LocalCounts();
  const logLimit = limitLog<ParkingLimit>(clock, (limit, refused) =>
    log.event('call.parking_limit', { limit: `limits.${limit}`, refused }),
  );
  const capacity = new Capacity(() => inForce.limits, counts, logLimit);
  const sealKeys = new SealKeys(keysOf(config, shares?.generatedKey ?? null, log), clock);
  const siblings = shares?.siblings ?? null;
  const services = { sealKeys, siblings, openResponses, fleetClock, clock, log };
  const tracer = await openTracer(process.env, log);
  const serveRelayed = observeRelayed(routes.serveRelayed, tracer);
  const replica = await joinReplicas(config, serveRelayed, services);
  let rateStore = await openRateStore(config, clock);
  const workers = () => siblings?.count ?? 1;
  const budget = (part: number) =>
    new ByteBudget(() => {
      const { maxMemoryPercent } = inForce.limits;
      const allowed = (memoryBytes * (maxMemoryPercent ?? 100)) / 100;
      return (allowed * part) / processesOf(workers());
    });
  const memory = new MemoryMonitor(processMemory(workers), () => capacity.used, clock);
  const shared: Services['shared'] = {
    get config() {
      return inForce;
    },
    clock,
    log,
    metrics,
    tracer,
    replica,
    hasSiblings: siblings !== null || config.relay !== null || config.redis !== null,
    openResponses,
    writes: new WriteBurst(() => openResponses.count <= 1),
    pendingRequests: new PendingRequests(),
    listenerQuota: new Quota(
      'listeners',
      limitsOf(() => LISTENER_LIMITS),
      counts,
    ),
    passedQuota: new Quota(
      'passed',
      () => ({ max: Infinity, maxPerPrincipal: Math.ceil(inForce.limits.maxConnections / 2) }),
      counts,
    ),
    taskQuota: new Quota(
      'tasks',
      limitsOf(() => ({
        max: inForce.limits.maxParkedCalls,
        maxPerPrincipal: inForce.limits.maxParkedCallsPerPrincipal,
      })),
      counts,
    ),
    counts,
    messageBudget: budget(PART_FOR_MESSAGES),
    bodyBudget: budget(PART_FOR_BODIES),
    capacity,
    sealer: createSealer({
      ring: sealKeys.ring('seal'),
      audience: config.seal.audience,
      clock,
      maxTokenBytes: MAX_REQUEST_STATE_BYTES,
    }),
    sealKeys,
    get rateStore() {
      return rateStore;
    },
    limited: observeLimits(telemetry, log),
    overloadedBy: () => {
      const { maxMemoryPercent } = inForce.limits;
      const isShort = maxMemoryPercent !== null && memory.isShort(maxMemoryPercent);
      return isShort ? 'limits.maxMemoryPercent' : null;
    },
  };
  telemetry.shared = shared;
  return {
    shared,
    prepare: async (next) => {
      rateStore ??= await openRateStore(next, clock);
    },
    use: (next) => {
      inForce = next;
      log.setLevel?.(next.log.level);
    },
    close: () => rateStore?.close(),
  };
}

/** Anonymous callers cannot be told apart: they have no limit each, and together half of what there is. */
function limitsOf(limits: () => QuotaLimits): (principalKey: string) => QuotaLimits {
  return (principalKey) => {
    const { max, maxPerPrincipal } = limits();
    const isAnonymous = principalKey === ANONYMOUS_KEY;
    return { max, maxPerPrincipal: isAnonymous ? partOfAnonymous(max) : maxPerPrincipal };
  };
}

/** Counts and logs each request that a limit refuses. */
function observeLimits({ metrics, clock }: Telemetry, log: Log): SharedServices['limited'] {
  const logs = new Map<string, (limit: LimitName) => void>();
  const logOf = (route: string) =>
    limitLog<LimitName>(clock, (limit, refused) =>
      log.event('request.limited', { route, limit, refused }),
    );
  return (route, limit) => {
    metrics.limited(route, limit);
    const logged = logs.get(route) ?? logOf(route);
    logs.set(route, logged);
    logged(limit);
  };
}

function keysOf(config: Config, generated: SecretKey | null, log: Log): readonly SecretKey[] {
  const configured = configuredKeys(config);
  if (configured.length > 0) return configured;
  if (generated !== null) return [generated];
  return [generateSealKey(config, log)];
}

/** Where replicas count requests together, so that a limit holds for all of them. */
interface OpenRateStore extends RateStore {
  close(): void;
}

/**
 * Connects to the Redis in which replicas count requests. Until it responds, and while it is unreachable, each counts for itself.
 * @returns `null` if there is no Redis, or no route limits a rate
 */
async function openRateStore(
  { redis, routes, seal }: Config,
  clock: Clock,
): Promise<OpenRateStore | null> {
  const isLimited = routes.some(({ limits: { tools, ...all } }) =>
    [all, ...Object.values(tools)].some(
      (one) => one.rate !== null || one.ratePerPrincipal !== null,
    ),
  );
  if (redis === null || !isLimited) return null;
  const { createRedis, keepConnecting } = await import('../fleet/redis/client.ts');
  let isClosed = false;
  const client = createRedis(redis, Math.random);
  // The directory has a connection of its own, and logs that Redis is unreachable.
  client.on('error', () => {});
  keepConnecting(client, clock, () => !isClosed);
  client.connect().catch(() => {});
  return {
    client,
    prefix: `mrtr:${encodeURIComponent(seal.audience)}:rate:`,
    close: () => {
      isClosed = true;
      client.disconnect();
    },
  };
}
