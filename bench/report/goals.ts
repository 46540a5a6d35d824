/** A goal beside what a run found. It judges nothing: the machine matters. */
export interface Goal {
  readonly what: string;
  readonly against: string;
  readonly goal: string;
  readonly measured: string;
}

export const GOAL_HEAD = ['figure', 'against', 'goal', 'measured'] as const;

export function goalRow({ what, against, goal, measured }: Goal): string[] {
  return [what, against, goal, measured];
}

/** Formats a ratio; one that has no meaning is said to be lost in the noise. */
export function times(value: number | null | undefined, digits: number): string {
  return value === null || value === undefined ? 'lost in the noise' : `${value.toFixed(digits)} x`;
}
