/** The types of what the routes of a process share. */
import type { Capacity } from '../calls/registry.ts';
import type { Config } from '../config/schema.ts';
import type { ClientConnections } from '../edge/http/connection.ts';
import type { Identity } from '../identity/identity.ts';
import type { ByteBudget } from '../lib/byte-budget.ts';
import type { Clock } from '../lib/clock.ts';
import type { Counts, Quota } from '../lib/counts.ts';
import type { OpenResponses, WriteBurst } from '../lib/http.ts';
import type { RateStore } from '../limits/rates.ts';
import type { AdmissionLimit, LimitName } from '../model/limited.ts';
import type { Replica } from '../model/replica.ts';
import type { Log } from '../ops/log.ts';
import type { Metrics } from '../ops/metrics.ts';
import type { Tracer } from '../ops/tracing.ts';
import type { SealKeys } from '../seal/seal-keys.ts';
import type { Sealer } from '../seal/seal.ts';
import type { PendingRequests } from './pending-requests.ts';

export interface SharedServices {
  /** The active configuration. */
  readonly config: Config;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** `null` if no traces are exported. */
  readonly tracer: Tracer | null;
  readonly capacity: Capacity;
  /** What the workers of this gateway count together. */
  readonly counts: Counts;
  /** Messages of servers of which a part has come. */
  readonly messageBudget: ByteBudget;
  /** Bodies of clients of which a part has come. */
  readonly bodyBudget: ByteBudget;
  readonly sealer: Sealer;
  /** The configured keys, or a generated one if there are none. */
  readonly sealKeys: SealKeys;
  readonly replica: Replica;
  /** Whether other processes can use the same servers. */
  readonly hasSiblings: boolean;
  readonly openResponses: OpenResponses;
  /** Makes the writes to clients and servers. */
  readonly writes: WriteBurst;
  readonly pendingRequests: PendingRequests;
  readonly listenerQuota: Quota;
  /** Responses that are passed through. */
  readonly passedQuota: Quota;
  readonly taskQuota: Quota;
  /** Where replicas count requests together; `null` if each counts for itself. */
  readonly rateStore: RateStore | null;
  /** Called for each request that a limit refuses. */
  readonly limited: (route: string, limit: LimitName) => void;
  /** Returns the limit by which this process needs no more work now; `null` if it can do more. */
  readonly overloadedBy: () => AdmissionLimit | null;
}

/** What the public side needs besides: the callers, their connections, and the configuration that it is for. */
export interface PublicServices extends SharedServices {
  readonly identity: Identity;
  readonly connections: ClientConnections;
}
