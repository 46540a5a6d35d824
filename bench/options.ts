/** The flags of the benchmark, and how long each part of it takes. */
import { parseArgs } from 'node:util';

export interface BenchOptions {
  /** Prints JSON for machines instead of tables. */
  readonly json: boolean;
  readonly calls: CallsOptions;
  readonly parked: ParkedOptions;
  readonly questions: QuestionsOptions;
}

export interface CallsOptions {
  /** Connections that each carry one call at a time. */
  readonly concurrencies: readonly number[];
  readonly repetitions: number;
  /** How long one path is loaded in one repetition, in ms. */
  readonly runMs: number;
  /** How long each path is loaded before anything counts, in ms. */
  readonly warmUpMs: number;
}

export interface ParkedOptions {
  /** Calls parked at once. */
  readonly count: number;
  readonly repetitions: number;
}

export interface QuestionsOptions {
  readonly repetitions: number;
  /** Questions asked and answered in one repetition. */
  readonly rounds: number;
  readonly warmUpRounds: number;
}

export const USAGE = `npm run bench -- [--quick] [--json] [--parked N]

  --quick     a run of about 15 s that shows that everything works; its numbers are rough
  --json      one JSON document on standard output, progress on standard error
  --parked N  how many calls to park for the memory of one (1000)`;

const FULL = {
  calls: { concurrencies: [1, 32], repetitions: 5, runMs: 1_000, warmUpMs: 1_500 },
  parked: { count: 1_000, repetitions: 3 },
  questions: { repetitions: 4, rounds: 50, warmUpRounds: 30 },
};

const QUICK = {
  calls: { concurrencies: [1, 32], repetitions: 2, runMs: 300, warmUpMs: 500 },
  parked: { count: 200, repetitions: 1 },
  questions: { repetitions: 1, rounds: 20, warmUpRounds: 5 },
};

/** Reads the flags; `null` when help was asked for. Throws TypeError for a flag that does not exist. */
export function readOptions(args: readonly string[]): BenchOptions | null {
  const { values } = parseArgs({
    args: [...args],
    options: {
      json: { type: 'boolean', default: false },
      quick: { type: 'boolean', default: false },
      parked: { type: 'string' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) return null;
  const base = values.quick ? QUICK : FULL;
  const count = values.parked === undefined ? base.parked.count : Number(values.parked);
  if (!Number.isInteger(count) || count < 1 || count > 20_000) {
    throw new TypeError('--parked takes a whole number from 1 to 20000');
  }
  return { ...base, json: values.json, parked: { ...base.parked, count } };
}
