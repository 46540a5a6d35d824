/** What all routes of a gateway share. */
import type { Call } from '../bridge/call.ts';
import type { RunningCalls } from '../bridge/running-calls.ts';
import type { Clock } from '../clock.ts';
import type { Config } from '../config/config.ts';
import type { MemoryLot } from '../lot/memory-lot.ts';
import type { OpenAnswers } from '../open-answers.ts';
import type { Log } from '../ops/log.ts';
import type { Sealer } from '../seal/seal.ts';
import type { ListenerQuota } from '../subscriptions/listener-quota.ts';
import type { Replica } from './fleet.ts';

export interface Shared {
  readonly config: Config;
  readonly clock: Clock;
  readonly log: Log;
  readonly lot: MemoryLot<Call>;
  readonly runningCalls: RunningCalls;
  readonly sealer: Sealer;
  readonly replica: Replica;
  readonly openAnswers: OpenAnswers;
  readonly listenerQuota: ListenerQuota;
}
