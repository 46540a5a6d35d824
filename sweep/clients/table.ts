/** The table of clients in docs/clients.md. */
import type { Answer, Question } from './reading.ts';
import type { Meeting, Result } from './results.ts';
import { SERVERS } from './stage.ts';

const COLUMNS = [
  'Client',
  'Begins with',
  'Ends its session',
  'Legacy server over HTTP',
  'Legacy server over stdio',
  'Modern-only server over HTTP',
];

/** What a row says of a client beside its results. */
export interface Described {
  readonly name: string;
  readonly setting?: string;
  readonly answers?: string;
}

/** @returns Markdown; one row for each client that has a result, in the order of `clients`, then those that cannot be run */
export function table(
  clients: readonly Described[],
  results: readonly Result[],
  documented: readonly { readonly name: string; readonly why: string }[],
): string {
  const rows = clients.flatMap((client) => {
    const result = results.find(
      ({ name, setting }) => name === client.name && setting === client.setting,
    );
    return result === undefined ? [] : [row(client, result)];
  });
  const notRun = documented.map(({ name, why }) => [
    name,
    `documented only: ${why}`,
    '',
    '',
    '',
    '',
  ]);
  return [COLUMNS, COLUMNS.map(() => '---'), ...rows, ...notRun]
    .map((cells) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`)
    .join('\n');
}

function row({ name, setting, answers }: Described, result: Result): string[] {
  const meetings = SERVERS.map((server) => result.with[server]);
  const begins = new Set(meetings.map(beginning).filter((text) => text !== ''));
  return [
    [`${name} ${result.version}`, setting ?? []].flat().join(', '),
    [...begins].join('; '),
    endOf(meetings),
    ...meetings.map((meeting) => outcome(meeting, answers)),
  ];
}

function beginning({ openings }: Meeting): string {
  return openings.map(({ method, revision }) => `\`${method}\` ${revision}`).join(', then ');
}

/** Only legacy clients have sessions. */
function endOf(meetings: readonly Meeting[]): string {
  const inSessions = meetings.filter(({ session }) => session !== 'none');
  if (inSessions.length === 0) return 'has none';
  return inSessions.every(({ session }) => session === 'ended') ? 'yes' : 'no';
}

function outcome(meeting: Meeting, answers: string | undefined): string {
  const { tools, echo, question, refusal, ended } = meeting;
  const words =
    tools === null
      ? [`**does not connect**${refusal === null ? '' : `: ${oneLine(refusal)}`}`]
      : [called(echo), asked(question, answers)];
  return [...words, ...(ended ? [] : ['had to be stopped'])].join('; ');
}

function called(echo: Answer): string {
  switch (echo.kind) {
    case 'right':
      return 'calls';
    case 'never called':
      return '**lists, and does not call**';
    case 'no answer':
      return '**its call has no answer**';
    case 'wrong':
      return `**its call returns** ${oneLine(echo.text)}`;
    case 'error':
      return `**its call fails**: ${oneLine(echo.text)}`;
  }
}

function asked(question: Question, answers: string | undefined): string {
  switch (question.kind) {
    case 'never called':
      return 'was not asked';
    case 'not declared':
      return 'cannot be asked';
    case 'shown nothing':
      return question.text === ''
        ? '**leaves the question open**'
        : `answers the question with an error: ${oneLine(question.text)}`;
    case 'failed':
      return `**its tool that asks fails**: ${oneLine(question.text)}`;
    case 'answered': {
      if (question.result.kind !== 'right') return `**answers, but** ${called(question.result)}`;
      const how = { accept: 'answers', decline: 'declines', cancel: 'cancels' }[question.action];
      return how === 'answers' && answers !== undefined
        ? `answers (${answers})`
        : (how ?? question.action);
    }
  }
}

function oneLine(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ').trim();
  return line.length > 160 ? `${line.slice(0, 160)}…` : line;
}
