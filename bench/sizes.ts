/** How much each part of the benchmark does, for each kind of run. */
import type { Turns } from './clients/ways.ts';

export interface Sizes {
  /** After this long, in ms, the run is given up, so that it always ends. */
  readonly giveUpMs: number;
  readonly calls: CallsOptions;
  readonly questions: QuestionsOptions;
  readonly official: OfficialOptions;
  readonly busy: BusyOptions;
  readonly stdio: StdioOptions;
  readonly legacy: LegacyOptions;
  readonly relay: RelayOptions;
  readonly replicas: ReplicasOptions;
  readonly workers: WorkersOptions;
  readonly parked: ParkedOptions;
  readonly many: ManyOptions;
  readonly rolling: RollingOptions;
  readonly tasks: TasksOptions;
  readonly limited: LimitedOptions;
  readonly footprint: FootprintOptions;
  readonly seal: SealOptions;
}

export interface CallsOptions {
  readonly loads: readonly LoadOptions[];
  /** How long each path is loaded before anything counts, in ms. */
  readonly warmUpMs: number;
}

export interface LoadOptions {
  /** Connections that each carry one call at a time. */
  readonly connections: number;
  readonly rounds: number;
  /** How long one path is loaded in one round, in ms. */
  readonly runMs: number;
}

export interface QuestionsOptions {
  readonly repetitions: number;
  /** Questions asked and answered in one repetition. */
  readonly rounds: number;
  readonly warmUpRounds: number;
}

export interface OfficialOptions {
  readonly warmUp: number;
  readonly samples: number;
}

export interface BusyOptions {
  /** How long the process is loaded before anything counts, in ms. */
  readonly warmUpMs: number;
  readonly rounds: number;
  /** How long the rate of the process is taken in one round, in ms. */
  readonly rateMs: number;
  /** Questions idle and as many under load, in one round. */
  readonly questions: number;
}

export interface StdioOptions {
  /** How long each number of clients asks, in ms. */
  readonly runMs: number;
  /** How long the quiet tool works, in ms. */
  readonly quietMs: number;
  /** For each number of callers. */
  readonly calls: Turns;
}

export interface LegacyOptions extends Turns {
  /** How many more sessions are opened for the memory of one. */
  readonly sessions: number;
}

export interface RelayOptions {
  readonly warmUp: number;
  /** Retries of each kind, timed in turns. */
  readonly samples: number;
  /** Each with processes of its own; odd, so that one is in the middle. */
  readonly repetitions: number;
}

export interface ReplicasOptions {
  /** How long each is loaded before anything counts, in ms, for each number of callers. */
  readonly warmUpMs: number;
  readonly rounds: number;
  /** How long each is loaded in one round, in ms. */
  readonly runMs: number;
  /** How many calls are made at once, beside one at a time. */
  readonly callers: number;
}

export interface WorkersOptions {
  /** Of a core, for each process that serves clients. */
  readonly share: number;
  /** How long each gateway is loaded before it is held back, in ms, in turns as long as a round. */
  readonly warmUpMs: number;
  readonly rounds: number;
  /** How long each gateway is loaded in one round, in ms. */
  readonly runMs: number;
}

/** How calls without questions are made before and while others are parked. */
export interface ServingOptions {
  /** How often each gateway is loaded. */
  readonly slices: number;
  readonly sliceMs: number;
  /** How long each is loaded before anything counts, in ms. */
  readonly warmUpMs: number;
}

export interface ParkedOptions {
  /** Calls parked at once and held. */
  readonly count: number;
  /** Calls parked at once and released: more, as what one takes is close to nothing. */
  readonly releasedCount: number;
  /** Calls parked before anything counts, and left so: code is compiled then, and pools are filled. */
  readonly warmUp: number;
  readonly repetitions: number;
  readonly serving: ServingOptions;
}

export interface ManyOptions {
  /** Calls held at once in one process. */
  readonly held: number;
  /** Calls held at once in three processes together. */
  readonly heldOverThree: number;
  /** Calls released at once in one process. */
  readonly released: number;
  /** Calls of these that are parked before anything counts. */
  readonly warmUp: number;
  /** How long the calls of one kind may take to be parked, in ms. */
  readonly parkMs: number;
  readonly serving: ServingOptions;
}

export interface RollingOptions {
  /** Calls released at once over three replicas. */
  readonly count: number;
  /** How long they may take to be parked, in ms. */
  readonly parkMs: number;
}

export interface TasksOptions {
  /** Calls that are tasks at once. */
  readonly count: number;
  /** Of these before anything counts. */
  readonly warmUp: number;
  /** How long they are polled, in ms. */
  readonly pollMs: number;
  readonly progress: ProgressOptions;
}

export interface ProgressOptions {
  readonly rounds: number;
  /** How long the tool works that reports its progress, in ms. */
  readonly workMs: number;
}

export interface LimitedOptions {
  readonly limitBytes: number;
  /** The most calls that are tried without `limits.maxParkedCalls`. */
  readonly mostParked: number;
  /** `limits.maxParkedCalls` of the other run, and how many more are tried there. */
  readonly sizedParked: number;
  readonly beyond: number;
  /** How long calls are parked at most, in ms. */
  readonly floodMs: number;
  /** How long calls without questions are made afterwards, in ms. */
  readonly loadMs: number;
}

export interface FootprintOptions {
  readonly starts: number;
  /** How long each is loaded before its memory counts, in ms. */
  readonly loadMs: number;
}

export interface SealOptions {
  readonly warmUp: number;
  readonly samples: number;
}

const LIMIT_BYTES = 512 * 2 ** 20;

export const FULL: Sizes = {
  giveUpMs: 2_400_000,
  calls: {
    loads: [
      { connections: 1, rounds: 32, runMs: 250 },
      { connections: 32, rounds: 24, runMs: 500 },
    ],
    // On a slow machine the code of the proxies and of the gateway becomes faster for some ten thousand calls.
    warmUpMs: 20_000,
  },
  questions: { repetitions: 4, rounds: 25, warmUpRounds: 20 },
  official: { warmUp: 200, samples: 200 },
  busy: { warmUpMs: 10_000, rounds: 10, rateMs: 1_000, questions: 100 },
  stdio: { runMs: 10_000, quietMs: 6_000, calls: { rounds: 24, runMs: 500 } },
  legacy: { rounds: 10, runMs: 500, sessions: 30 },
  relay: { warmUp: 150, samples: 300, repetitions: 5 },
  replicas: { warmUpMs: 8_000, rounds: 40, runMs: 250, callers: 16 },
  workers: { share: 0.12, warmUpMs: 25_000, rounds: 10, runMs: 2_500 },
  parked: {
    count: 1_000,
    releasedCount: 2_000,
    warmUp: 250,
    repetitions: 3,
    serving: { slices: 8, sliceMs: 100, warmUpMs: 1000 },
  },
  many: {
    held: 9_000,
    heldOverThree: 20_000,
    released: 100_000,
    warmUp: 300,
    parkMs: 900_000,
    serving: { slices: 12, sliceMs: 150, warmUpMs: 1000 },
  },
  rolling: { count: 1_000_000, parkMs: 10_800_000 },
  tasks: {
    count: 10_000,
    warmUp: 300,
    pollMs: 5_000,
    progress: { rounds: 4, workMs: 10_000 },
  },
  limited: {
    limitBytes: LIMIT_BYTES,
    mostParked: 12_000,
    sizedParked: 4_000,
    beyond: 500,
    floodMs: 180_000,
    loadMs: 60_000,
  },
  footprint: { starts: 5, loadMs: 60_000 },
  seal: { warmUp: 10_000, samples: 5_000 },
};

export const NOISY: Sizes = {
  ...FULL,
  calls: {
    loads: [
      { connections: 1, rounds: 50, runMs: 180 },
      { connections: 32, rounds: 50, runMs: 180 },
    ],
    warmUpMs: 6_000,
  },
  parked: { ...FULL.parked, serving: { slices: 24, sliceMs: 60, warmUpMs: 1000 } },
  many: { ...FULL.many, serving: { slices: 40, sliceMs: 60, warmUpMs: 1000 } },
};

export const QUICK: Sizes = {
  giveUpMs: 600_000,
  calls: {
    loads: [
      { connections: 1, rounds: 4, runMs: 150 },
      { connections: 32, rounds: 2, runMs: 300 },
    ],
    warmUpMs: 500,
  },
  questions: { repetitions: 1, rounds: 20, warmUpRounds: 5 },
  official: { warmUp: 5, samples: 20 },
  busy: { warmUpMs: 1_000, rounds: 2, rateMs: 500, questions: 40 },
  stdio: { runMs: 2_000, quietMs: 3_000, calls: { rounds: 4, runMs: 250 } },
  legacy: { rounds: 3, runMs: 200, sessions: 8 },
  relay: { warmUp: 50, samples: 80, repetitions: 1 },
  replicas: { warmUpMs: 500, rounds: 4, runMs: 150, callers: 16 },
  workers: { share: 0.12, warmUpMs: 2_000, rounds: 2, runMs: 1_000 },
  parked: {
    count: 300,
    releasedCount: 600,
    warmUp: 200,
    repetitions: 1,
    serving: { slices: 4, sliceMs: 60, warmUpMs: 200 },
  },
  many: {
    held: 450,
    heldOverThree: 900,
    released: 2_000,
    warmUp: 150,
    parkMs: 120_000,
    serving: { slices: 4, sliceMs: 60, warmUpMs: 200 },
  },
  rolling: { count: 2_000, parkMs: 120_000 },
  tasks: { count: 500, warmUp: 150, pollMs: 1_000, progress: { rounds: 2, workMs: 3_000 } },
  limited: {
    limitBytes: LIMIT_BYTES,
    mostParked: 600,
    sizedParked: 200,
    beyond: 50,
    floodMs: 20_000,
    loadMs: 2_000,
  },
  footprint: { starts: 1, loadMs: 3_000 },
  seal: { warmUp: 200, samples: 400 },
};
