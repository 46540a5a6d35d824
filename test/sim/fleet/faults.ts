/** Faults, which are data: what breaks, where, at which moment of the wire, and for how long. */
import { below, choose } from '../engine/random.ts';

/**
 * A fault at any time finds little: it strikes when something was just `called`, `asked`, `answered`, done (`acted`) or
 * `ended` at a server, a question was just `shown` to a client, its retry was just sent (`retried`), a stream was just `resumed`, a home or call just
 * `claimed`, or a lease just `renewed`.
 */
const MOMENTS = [
  'shown',
  'retried',
  'called',
  'asked',
  'answered',
  'acted',
  'ended',
  'resumed',
  'claimed',
  'renewed',
] as const;
export type Moment = (typeof MOMENTS)[number];

/** What happens to a replica. `vanish` is a kill of which the network tells nobody. */
const OF_REPLICAS = ['kill', 'vanish', 'drain', 'freeze', 'clock'] as const;
/** What happens between a replica and another part. */
const OF_LINKS = ['partition', 'deaf', 'mute', 'reset', 'half-close', 'refuse'] as const;
/** What happens to the store. */
const OF_STORE = [
  'store-away',
  'store-hangs',
  'store-slow',
  'store-loses-replies',
  'store-loses-data',
  'store-falls-back',
  'store-clock',
  'store-poisoned',
] as const;
/** What happens to the process of a server over stdio. */
const OF_PROCESSES = [
  'process-dies',
  'process-dies-in-line',
  'process-hangs',
  'process-writes-garbage',
  'process-writes-errors',
] as const;
/** What happens to a worker of a gateway. */
const OF_WORKERS = ['worker-dies', 'worker-hangs'] as const;
/** What happens where a history has that theme. */
type OfThemes = 'store-queues-poisoned';
const FAULTS = [...OF_REPLICAS, ...OF_LINKS, ...OF_STORE] as const;
export type FaultKind =
  (typeof FAULTS)[number] | (typeof OF_PROCESSES)[number] | (typeof OF_WORKERS)[number] | OfThemes;
type Some<Item> = readonly [Item, ...Item[]];
const PARTS = ['redis', 'server', 'client', 'replica'] as const;

export interface PlannedFault {
  readonly id: number;
  readonly kind: FaultKind;
  readonly moment: Moment;
  /** How often the moment was there before. */
  readonly nth: number;
  /** How long after the moment. */
  readonly afterMs: number;
  /** The replica where the moment was, or any. */
  readonly where: 'here' | 'any';
  /** The other end, for a fault of a link. */
  readonly between: (typeof PARTS)[number];
  readonly forMs: number;
  /** When the replica that is gone is started again, or never. */
  readonly restartMs: number | null;
}

/** How many faults a history has. */
export interface FaultCounts {
  /** Fewer than this, of any kind. */
  readonly below: number;
  /** Before which of its times the moment of a fault is. */
  readonly latestNth: number;
  /** Besides, ends of replicas after which another process starts there. */
  readonly restarts: number;
}

/** A lease is 5 s, a command to the store 1 s, a connect 2 to 5 s. */
const LENGTHS_MS = [300, 1_200, 3_000, 4_800, 5_200, 9_000, 14_000] as const;
const DELAYS_MS = [0, 0, 0, 1, 5, 40, 700] as const;
const JITTER_MS = 200;
const RESTARTS_MS = [10, 1_500, 6_000] as const;
const ENDS = ['kill', 'vanish', 'drain'] as const;
const ANY_ONE_IN = 3;

export function faultsOf(
  seed: number,
  { replicas, isOverStdio }: { replicas: number; isOverStdio: boolean },
  counts: FaultCounts,
): PlannedFault[] {
  const name = `faults:${seed}`;
  const { latestNth } = counts;
  // Some fleets are only killed and drained, others see everything.
  const ofProcesses: Some<Some<FaultKind>> = [
    OF_PROCESSES,
    [...OF_PROCESSES, 'kill', 'drain', 'freeze'],
    [...OF_PROCESSES, ...FAULTS],
  ];
  const kinds = choose<Some<FaultKind>>(
    `${name}:kinds`,
    isOverStdio
      ? ofProcesses
      : [
          ['kill', 'drain', 'freeze'],
          [...OF_REPLICAS],
          [...OF_REPLICAS, ...OF_LINKS],
          [...OF_STORE, 'kill', 'freeze'],
          [...FAULTS],
        ],
  );
  const count = below(`${name}:count`, counts.below);
  const faults = Array.from({ length: count + counts.restarts }, (_, id): PlannedFault => {
    const fault = `${name}:${id}`;
    if (id < count) return faultOf(fault, id, kinds, latestNth);
    const restartMs = choose(`${fault}:restart`, RESTARTS_MS);
    return { ...faultOf(fault, id, ENDS, latestNth), restartMs };
  });
  return replicas > 1 ? faults : faults.filter(({ kind }) => !isEnd(kind));
}

/** @returns a fault of a worker */
export function workerFaultOf(name: string, id: number, latestNth: number): PlannedFault {
  return faultOf(name, id, OF_WORKERS, latestNth);
}

function faultOf(
  name: string,
  id: number,
  kinds: Some<FaultKind>,
  latestNth: number,
): PlannedFault {
  return {
    id,
    kind: choose(`${name}:kind`, kinds),
    moment: choose(`${name}:moment`, MOMENTS),
    nth: below(`${name}:nth`, latestNth),
    afterMs: choose(`${name}:after`, DELAYS_MS),
    where: below(`${name}:where`, ANY_ONE_IN) === 0 ? 'any' : 'here',
    between: choose(`${name}:between`, PARTS),
    forMs: choose(`${name}:for`, LENGTHS_MS) + below(`${name}:jitter`, JITTER_MS),
    restartMs: choose(`${name}:restart`, [null, ...RESTARTS_MS]),
  };
}

/** Whether a replica is gone after it. */
export function isEnd(kind: FaultKind): boolean {
  return (ENDS as readonly FaultKind[]).includes(kind);
}

/** Whether nobody may lose a call by it. */
export function isGentle({ kind }: PlannedFault): boolean {
  return kind === 'drain' || kind === 'store-queues-poisoned';
}

/** Whether the store is there for all others meanwhile, whatever is in its keys. */
export function leavesStore({ kind }: PlannedFault): boolean {
  return isEnd(kind) || kind === 'store-poisoned' || kind === 'store-queues-poisoned';
}

/** Whether it happens to a process of a server over stdio. */
export function isOfProcess(kind: FaultKind): boolean {
  return (OF_PROCESSES as readonly FaultKind[]).includes(kind);
}

/** Whether it happens to a worker. */
export function isOfWorker(kind: FaultKind): boolean {
  return (OF_WORKERS as readonly FaultKind[]).includes(kind);
}

/** Whether the store may have lost what it had acknowledged. */
export function losesData({ kind }: PlannedFault): boolean {
  return ['store-loses-data', 'store-falls-back', 'store-poisoned', 'store-clock'].includes(kind);
}
