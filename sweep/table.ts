/** The page with the results of the sweep. */
import type { Comparison } from './compare.ts';
import { LISTS } from './observe.ts';
import type { PublishedServer } from './server.ts';

export type Result =
  | { readonly server: PublishedServer; readonly comparison: Comparison }
  | { readonly server: PublishedServer; readonly failure: string };

const COLUMNS = [
  'server',
  'language',
  'transport',
  'tools/prompts/resources/templates',
  'calls',
  'questions',
  'remarks',
];

/** @returns Markdown, as `docs/servers.md` has it below its introduction */
export function table(results: readonly Result[]): string {
  const rows = results.map((result) => row(result).join(' | '));
  return [
    `| ${COLUMNS.join(' | ')} |`,
    `| ${COLUMNS.map(() => '---').join(' | ')} |`,
    ...rows.map((cells) => `| ${cells} |`),
  ].join('\n');
}

/** `differs`: not as it is directly. `no result`: as it is directly, where every call fails as well. */
export type Verdict = 'works' | 'no result' | 'differs';

export function verdict(result: Result): Verdict {
  if (!('comparison' in result)) return 'differs';
  const { lists, calls, questions } = result.comparison;
  if (!questions.same || lists.some(({ missing }) => missing.length > 0)) return 'differs';
  if (calls.some(({ verdict }) => verdict === 'different')) return 'differs';
  return calls.some(({ verdict }) => verdict === 'same result') ? 'works' : 'no result';
}

function row(result: Result): readonly string[] {
  const { server } = result;
  const {
    name,
    package: { version },
    language,
    start,
    flags,
    remark,
  } = server;
  const remarks = [flags && `\`${flags.args.join(' ')}\`: ${flags.why}`, remark]
    .filter(Boolean)
    .join(' ');
  const head = [`${name} ${version}`, language, start.transport];
  if ('failure' in result)
    return [...head, '-', '-', '-', cell(`**failed**: ${result.failure} ${remarks}`)];
  const { lists, calls, questions } = result.comparison;
  return [
    ...head,
    LISTS.map((name) => listCell(lists.find((list) => list.name === name))).join('/'),
    callsCell(calls),
    questions.same
      ? `${questions.through}${server.rootsAtStart ? ' (without roots)' : ''}`
      : `**${questions.through} of ${questions.direct}**`,
    cell(remarks),
  ];
}

/** How many calls have the same result, and then the tools of each other verdict, which is named once. */
function callsCell(calls: Comparison['calls']): string {
  const withVerdict = (wanted: string) =>
    calls.filter(({ verdict }) => verdict === wanted).map(({ tool }) => `\`${tool}\``);
  const group = (name: string, tools: readonly string[]) =>
    tools.length > 0 ? [`${name}: ${tools.join(', ')}`] : [];
  const same = withVerdict('same result');
  return [
    ...(same.length > 0 ? [String(same.length)] : []),
    ...group('same error', withVerdict('same error')),
    ...group('**different**', withVerdict('different')),
  ].join('; ');
}

function listCell(list: Comparison['lists'][number] | undefined): string {
  const { count, missing, changed } = list ?? { count: 0, missing: [], changed: [] };
  if (missing.length > 0) return `**${count - missing.length} of ${count}**`;
  return `${count}${changed.length > 0 ? ` (${changed.length} reworded)` : ''}`;
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll(/\s+/g, ' ').trim();
}
