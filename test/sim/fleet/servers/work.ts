/** What the tools of a simulated server do wherever it runs. */
import type { Random } from '../../engine/random.ts';
import { simulation } from '../../engine/simulation.ts';
import type { ServerOptions } from './sessions.ts';
import type { Work } from './tools.ts';

const SLOWEST_PAUSE_MS = 200;
const WITHDRAWN_AFTER_MS = 30;
const REPORTS = 40;
const REPORT_BYTES = 12_000;
const REPORT_EVERY_MS = 20;
const ONE_REPORT_BYTES = 2 * REPORTS * REPORT_BYTES;
/** 3 MiB, as text. */
const PICTURE = Buffer.alloc(3 * 1_024 * 1_024).toString('base64');

/** A notification about progress. */
export interface Report {
  readonly progress: number;
  readonly message: string;
}

/** @param report sends what the tool says about its progress; `null` if nobody wants that */
export function workOf(
  call: string,
  random: Random,
  { workMs, traits }: ServerOptions,
  report: ((report: Report) => unknown) | null,
): Pick<Work, 'work' | 'pause' | 'report'> {
  let progress = 0;
  return {
    work: () => simulation().sleep(workMs(call)),
    pause: () => simulation().sleep(random.below(SLOWEST_PAUSE_MS)),
    report: async () => {
      if (report === null) return;
      const [count, bytes] =
        traits.reports === 'at-once' ? [1, ONE_REPORT_BYTES] : [REPORTS, REPORT_BYTES];
      for (let nth = 0; nth < count; nth++) {
        progress += 1;
        void report({ progress, message: `${progress}: ${'x'.repeat(bytes)}` });
        if (traits.reports === 'steadily') await simulation().sleep(REPORT_EVERY_MS);
      }
    },
  };
}

/** For how long a question is open that is taken back. */
export function untilWithdrawn(random: Random): Promise<void> {
  return simulation().sleep(WITHDRAWN_AFTER_MS + random.below(WITHDRAWN_AFTER_MS));
}

/** The content of the result of a call. */
export function contentOf(call: string, answers: readonly string[], { traits }: ServerOptions) {
  const text = `of=${call};answers=${answers.join(',')};`;
  const picture = { type: 'image' as const, mimeType: 'image/png', data: PICTURE };
  return [{ type: 'text' as const, text }, ...(traits.draws ? [picture] : [])];
}
