/** The parts that all routes of a gateway share. */
import type { Capacity } from '../calls/registry.ts';
import type { Clock } from '../lib/clock.ts';
import type { Config } from '../config/config.ts';
import type { OpenResponses } from '../lib/responses.ts';
import type { Log } from '../ops/log.ts';
import type { SecretKey } from '../seal/key-ring.ts';
import type { Sealer } from '../seal/seal.ts';
import type { ListenerQuota } from '../subscriptions/subscriptions.ts';
import type { Replica } from './replica.ts';

export interface SharedServices {
  readonly config: Config;
  readonly clock: Clock;
  readonly log: Log;
  readonly capacity: Capacity;
  readonly sealer: Sealer;
  /** The configured keys, or a generated one if there are none. */
  readonly sealKeys: readonly SecretKey[];
  readonly replica: Replica;
  /** Whether other processes can use the same servers. */
  readonly hasSiblings: boolean;
  readonly openResponses: OpenResponses;
  readonly listenerQuota: ListenerQuota;
}
