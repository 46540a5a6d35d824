/** Whether load balancers can send requests to a gateway, and what it waits for at its start. */
import type { Config } from '../config/schema.ts';
import type { Readiness } from '../ops/admin.ts';

/**
 * Returns the readiness of a gateway that has no routes yet.
 * @param hasJoined whether it has joined the other replicas, for which it needs Redis if that is configured
 */
export function readinessAtStart({ redis }: Config, hasJoined: boolean): Readiness {
  const isAwaited = redis !== null && !hasJoined;
  return { status: 'not ready', ...(isAwaited && { redis: 'no response yet' }), routes: {} };
}

/** What the primary knows of a worker. */
interface KnownWorker {
  /** `null` until it has joined the other replicas. */
  readonly sibling: object | null;
}

/**
 * Returns the readiness of a gateway with several workers. It is ready if one worker is: a worker that is being replaced
 * takes no connections.
 * @param serving the workers that serve clients, and respond
 * @param workers all that run
 */
export function readinessOfWorkers(
  serving: readonly Readiness[],
  workers: Iterable<KnownWorker>,
  config: Config,
): Readiness {
  const best = serving.find(({ status }) => status === 'ready') ?? serving[0];
  if (best !== undefined) return best;
  return readinessAtStart(
    config,
    [...workers].every(({ sibling }) => sibling !== null),
  );
}
