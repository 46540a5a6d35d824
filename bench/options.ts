/** The flags of the benchmark, and how long each part of it takes. */
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

export interface BenchOptions {
  /** Prints JSON for machines instead of tables. */
  readonly json: boolean;
  /** After this long, in ms, the run is given up, so that it always ends. */
  readonly giveUpMs: number;
  readonly calls: CallsOptions;
  readonly parked: ParkedOptions;
  readonly relay: RelayOptions;
  readonly questions: QuestionsOptions;
  readonly official: OfficialOptions;
  readonly footprint: FootprintOptions;
  readonly seal: SealOptions;
  /** The folder of another version of the gateway, or `null`. */
  readonly earlier: URL | null;
}

export interface OfficialOptions {
  readonly warmUp: number;
  readonly samples: number;
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

export interface ParkedOptions {
  /** Calls parked at once and held. */
  readonly count: number;
  /** Calls parked at once and released: more, as what one takes is close to nothing. */
  readonly releasedCount: number;
  /** Calls parked before anything counts, and left so: code is compiled then, and pools are filled. */
  readonly warmUp: number;
  readonly repetitions: number;
  /** How long calls without questions are made before and while the others are parked, in ms. */
  readonly serveMs: number;
}

export interface RelayOptions {
  readonly warmUp: number;
  /** Retries of each kind, timed in turns. */
  readonly samples: number;
}

export interface QuestionsOptions {
  readonly repetitions: number;
  /** Questions asked and answered in one repetition. */
  readonly rounds: number;
  readonly warmUpRounds: number;
}

export const USAGE = `npm run bench -- [--quick | --noisy] [--json] [--earlier FOLDER] [--parked N] [--released N]

  --quick     a run of about 20 s that shows that everything works; its numbers are rough
  --noisy     short turns and many of them, for a machine that others use: trust the processor time and
              the ratios of the same round, not the times
  --earlier FOLDER  another version of the gateway, with its node_modules, as one more peer
  --json      one JSON document on standard output, progress on standard error
  --parked N  how many calls to hold parked at once for the memory of one (1000); each takes two sockets
              in the gateway and two in the upstream, so the limit of open files may have to be raised
  --released N  how many calls to park and release (2000)`;

const FULL = {
  giveUpMs: 1_200_000,
  calls: {
    loads: [
      { connections: 1, rounds: 16, runMs: 250 },
      { connections: 32, rounds: 8, runMs: 500 },
    ],
    warmUpMs: 1_000,
  },
  parked: { count: 1_000, releasedCount: 2_000, warmUp: 250, repetitions: 3, serveMs: 400 },
  relay: { warmUp: 150, samples: 300 },
  questions: { repetitions: 4, rounds: 25, warmUpRounds: 20 },
  official: { warmUp: 20, samples: 100 },
  footprint: { starts: 5, loadMs: 60_000 },
  seal: { warmUp: 1_000, samples: 2_000 },
};

const NOISY = {
  ...FULL,
  giveUpMs: 1_200_000,
  calls: {
    loads: [
      { connections: 1, rounds: 50, runMs: 180 },
      { connections: 32, rounds: 50, runMs: 180 },
    ],
    warmUpMs: 2_000,
  },
};

const QUICK = {
  giveUpMs: 240_000,
  calls: {
    loads: [
      { connections: 1, rounds: 4, runMs: 150 },
      { connections: 32, rounds: 2, runMs: 300 },
    ],
    warmUpMs: 500,
  },
  parked: { count: 300, releasedCount: 600, warmUp: 200, repetitions: 1, serveMs: 300 },
  relay: { warmUp: 50, samples: 80 },
  questions: { repetitions: 1, rounds: 20, warmUpRounds: 5 },
  official: { warmUp: 5, samples: 20 },
  footprint: { starts: 1, loadMs: 3_000 },
  seal: { warmUp: 200, samples: 400 },
};

/** Reads the flags; `null` when help was asked for. Throws TypeError for flags that are not understood. */
export function readOptions(args: readonly string[]): BenchOptions | null {
  const { values } = parseArgs({
    args: [...args],
    options: {
      json: { type: 'boolean', default: false },
      quick: { type: 'boolean', default: false },
      noisy: { type: 'boolean', default: false },
      earlier: { type: 'string' },
      parked: { type: 'string' },
      released: { type: 'string' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) return null;
  if (values.quick && values.noisy) throw new TypeError('--quick and --noisy exclude each other');
  const base = values.quick ? QUICK : values.noisy ? NOISY : FULL;
  const earlier = values.earlier === undefined ? null : folderUrl(values.earlier);
  const count = wholeNumber('--parked', values.parked) ?? base.parked.count;
  const releasedCount = wholeNumber('--released', values.released) ?? base.parked.releasedCount;
  return { ...base, json: values.json, earlier, parked: { ...base.parked, count, releasedCount } };
}

function folderUrl(path: string): URL {
  return pathToFileURL(path.endsWith('/') ? path : `${path}/`);
}

function wholeNumber(flag: string, text: string | undefined): number | null {
  if (text === undefined) return null;
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1 || value > 200_000) {
    throw new TypeError(`${flag} takes a whole number from 1 to 200000`);
  }
  return value;
}
