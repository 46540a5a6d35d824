/** What a check found, as a line for people and as JSON. */
import { asOneLine, shownJson } from '../lib/shown-text.ts';

const VERDICTS = ['ok', 'warning', 'failed'] as const;
export type Verdict = (typeof VERDICTS)[number];

export interface Finding {
  /** What was looked at, such as `route`. */
  readonly check: string;
  /** Which one of several, such as the path of a route. */
  readonly of: string | null;
  readonly verdict: Verdict;
  /** What was found and, if it is not ok, what to do. */
  readonly text: string;
}

/** Makes the findings of one check. */
export function finder(check: string, of: string | null = null) {
  const found = (verdict: Verdict) => (text: string) => ({ check, of, verdict, text });
  return { ok: found('ok'), warning: found('warning'), failed: found('failed') };
}

/** Returns the worst of them. */
export function worstOf(findings: readonly Pick<Finding, 'verdict'>[]): Verdict {
  const found = findings.map(({ verdict }) => VERDICTS.indexOf(verdict));
  return VERDICTS[Math.max(0, ...found)] ?? 'failed';
}

const COLORS: Readonly<Record<Verdict, number>> = { ok: 32, warning: 33, failed: 31 };
const MAX_CHARACTERS = 2_000;

/** Formats a finding as one line. */
export function lineOf({ check, of, verdict, text }: Finding, isColored: boolean): string {
  const word = verdict.padEnd('warning'.length);
  const painted = isColored ? `\u001b[${COLORS[verdict]}m${word}\u001b[0m` : word;
  const subject = of === null ? check : `${check} ${asOneLine(of, 200)}`;
  return `${painted}  ${subject}: ${asOneLine(text, MAX_CHARACTERS)}\n`;
}

/** Counts findings in one line. */
export function summaryOf(findings: readonly Finding[]): string {
  const counts = VERDICTS.map(
    (each) => `${findings.filter(({ verdict }) => verdict === each).length} ${each}`,
  );
  return `${counts.join(', ')}\n`;
}

/** Formats all findings as one JSON document. Members can be added; their names do not change. */
export function jsonOf(findings: readonly Finding[]): string {
  return shownJson({ format: 1, verdict: worstOf(findings), findings });
}
