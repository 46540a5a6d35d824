/** How the benchmark prints what it found. */
import { describe, expect, test } from 'vitest';
import { part } from '../../../bench/part.ts';
import { readOptions } from '../../../bench/options.ts';
import { reportJson, reportMarkdown, reportText } from '../../../bench/report/report.ts';
import { sectionMarkdown, sectionText } from '../../../bench/report/section.ts';

const SECTION = {
  title: 'seals',
  notes: ['In turns.', 'On one core.'],
  tables: [
    {
      caption: 'one core',
      rows: [
        ['', 'us'],
        ['gateway', '20.1'],
      ],
    },
  ],
  after: ['That is all.'],
};

test('a section on a terminal', () => {
  expect(sectionText(SECTION, 7)).toBe(`7. seals
   In turns.
   On one core.

one core
           us
-------  ----
gateway  20.1

   That is all.`);
});

test('a section of a page has the form that Prettier gives it', () => {
  expect(sectionMarkdown(SECTION)).toBe(`### Seals

In turns. On one core.

One core:

|         | us   |
| ------- | ---- |
| gateway | 20.1 |

That is all.`);
});

const options = readOptions([], ['seal']);
if (options === null) throw new Error('help was not asked for');
const context = { options, upstream: '', folder: '', nginx: null, done: () => {} };

const seals = (measure: () => Promise<number>) =>
  part({
    name: 'seal',
    estimateMs: () => 1,
    measure,
    section: () => SECTION,
    wanted: [{ what: 'a seal', against: '-', goal: '20 us', measured: (us) => `${us} us` }],
  });

describe('a part', () => {
  test('states its goals beside what it measured', async () => {
    const { goals, result } = await seals(() => Promise.resolve(21)).run(context);
    expect(result).toBe(21);
    expect(goals).toEqual([{ what: 'a seal', against: '-', goal: '20 us', measured: '21 us' }]);
  });

  test('that fails is reported as failed, and its goals as not measured', async () => {
    const failing = seals(() => Promise.reject(new Error('no upstream')));
    const { problem, goals, section } = await failing.run(context);
    expect(problem).toBe('no upstream');
    expect(goals).toEqual(failing.unmeasured);
    expect(goals[0]?.measured).toBe('not measured');
    expect(sectionText(section, 1)).toContain('Failed: no upstream');
  });
});

test('every form of a report has the goals, the commit and the findings', async () => {
  const one = seals(() => Promise.resolve(21));
  const finding = await one.run(context);
  const report = {
    machine: {
      date: '2026-01-31',
      commit: 'abc1234',
      cpu: 'A processor',
      cores: 2,
      memoryGiB: 24,
      system: 'linux x64',
      node: 'v24.0.0',
      loadAverage: 0.5,
    },
    nginx: null,
    findings: new Map([['seal', finding]]),
    goals: finding.goals,
    elapsedMs: 1_000,
  };
  for (const text of [reportText(report), reportMarkdown(report), reportJson(report)]) {
    expect(text).toContain('abc1234');
    expect(text).toContain('21 us');
  }
  expect(JSON.parse(reportJson(report))).toMatchObject({ parts: { seal: 21 } });
});
