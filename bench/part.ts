/** One part of the benchmark: what it measures, how that is printed, and what the project wants of it. */
import type { BenchOptions } from './options.ts';
import type { Goal } from './report/goals.ts';
import type { Section } from './report/section.ts';

export interface Context {
  readonly options: BenchOptions;
  /** The origin of the legacy server that all parts share. */
  readonly upstream: string;
  /** Where files may be written; it is deleted at the end. */
  readonly folder: string;
  /** Such as `nginx/1.22.1`; `null` if it is not installed. */
  readonly nginx: string | null;
  /** Reports which share of the part is done, from 0 to 1. */
  readonly done: (share: number) => void;
}

/** What the project wants of a figure, and how it is read from the result of its part. */
export interface Wanted<Result> {
  readonly what: string;
  readonly against: string;
  readonly goal: string;
  readonly measured: (result: Result) => string;
}

export interface PartOf<Result> {
  readonly name: string;
  /** How long it takes on a quiet machine, in ms, for the progress line only. */
  readonly estimateMs: (options: BenchOptions) => number;
  /** @throws Error if something that had to be measured did not work */
  readonly measure: (context: Context) => Promise<Result>;
  readonly section: (result: Result) => Section;
  readonly wanted: readonly Wanted<Result>[];
}

/** What a part found, in every form in which it is printed. */
export interface Finding {
  /** Why the part failed; `null` if it did not. */
  readonly problem: string | null;
  readonly result: unknown;
  readonly section: Section;
  readonly goals: readonly Goal[];
}

/** A part whose kind of result only it knows. */
export interface Part {
  readonly name: string;
  readonly estimateMs: (options: BenchOptions) => number;
  /** Never rejects: what went wrong in a part is what it found. */
  readonly run: (context: Context) => Promise<Finding>;
  /** The goals of a part that was not run. */
  readonly unmeasured: readonly Goal[];
}

/** Hides the kind of result of a part, so that all parts fit into one list. */
export function part<Result>(one: PartOf<Result>): Part {
  const { name, estimateMs, wanted } = one;
  const goals = (measured: (goal: Wanted<Result>) => string): Goal[] =>
    wanted.map((each) => ({
      what: each.what,
      against: each.against,
      goal: each.goal,
      measured: measured(each),
    }));
  const unmeasured = goals(() => NOT_MEASURED);
  const run = async (context: Context): Promise<Finding> => {
    try {
      const result = await one.measure(context);
      const reached = goals((each) => each.measured(result));
      return { problem: null, result, section: one.section(result), goals: reached };
    } catch (error) {
      // The other parts are not lost.
      const problem = error instanceof Error ? error.message : String(error);
      const section = { title: name, notes: [`Failed: ${problem}`], tables: [] };
      return { problem, result: { problem }, section, goals: unmeasured };
    }
  };
  return { name, estimateMs, unmeasured, run };
}

export const NOT_MEASURED = 'not measured';
