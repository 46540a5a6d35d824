/** What a fuzz target is: inputs, and what must hold for each of them. */
import fc from 'fast-check';

export interface Target {
  readonly name: string;
  /** Inputs of the run in `npm test`: so many take about half a second. */
  readonly shortRuns: number;
  start(): Promise<RunningTarget<unknown>>;
}

export interface RunningTarget<Input> {
  readonly inputs: fc.Arbitrary<Input>;
  /** Inputs that are tried first. */
  readonly examples?: readonly Input[];
  /** @throws for an input that is handled wrongly */
  check(input: Input): void | Promise<void>;
  stop(): Promise<void>;
}

/** Names a target. Its inputs are its own. */
export function target<Input>(
  name: string,
  shortRuns: number,
  start: () => Promise<RunningTarget<Input>> | RunningTarget<Input>,
): Target {
  return { name, shortRuns, start: async () => (await start()) as RunningTarget<unknown> };
}

export interface FuzzLimits {
  readonly seed: number;
  /** How many inputs at most. */
  readonly runs: number;
  /** How long at most, in ms; absent for no limit. */
  readonly withinMs?: number;
}

/**
 * Runs a target.
 * @returns the number of inputs
 * @throws Error with the seed and the smallest input found that is handled wrongly
 */
export async function fuzz({ start }: Target, limits: FuzzLimits): Promise<number> {
  const running = await start();
  let inputs = 0;
  const property = fc.asyncProperty(running.inputs, async (input) => {
    inputs += 1;
    await running.check(input);
  });
  try {
    await fc.assert(property, {
      examples: (running.examples ?? []).map((example): [unknown] => [example]),
      seed: limits.seed,
      numRuns: limits.runs,
      ...(limits.withinMs === undefined ? {} : { interruptAfterTimeLimit: limits.withinMs }),
    });
  } finally {
    await running.stop();
  }
  return inputs;
}
