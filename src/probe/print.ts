/** Prints a report as text or as JSON, without control characters of the server. */
import { stringify } from 'yaml';
import { asOneLine, shownJson } from '../lib/shown-text.ts';
import { isJsonObject, type JsonObject } from '../protocol/json.ts';
import type { Entry, Listing, ResourceEntry, ToolEntry } from '../upstream/discovery/listings.ts';
import type { ProbeReport } from './report.ts';

type TextStyle = 'bold' | 'dim' | 'good' | 'warn';
type Paint = (style: TextStyle, text: string) => string;

const TRANSPORTS: Readonly<Record<ProbeReport['transport'], string>> = {
  'streamable-http': 'Streamable HTTP',
  'http-sse': 'HTTP+SSE',
  stdio: 'stdio',
};
const CODES: Readonly<Record<TextStyle, number>> = { bold: 1, dim: 2, good: 32, warn: 33 };
const MAX_SHOWN_ITEMS = 50;
const MAX_NAME_WIDTH = 40;
const MAX_LINE_WIDTH = 100;

/** Formats a report as JSON and a newline. */
export function jsonText(report: ProbeReport): string {
  return shownJson(report);
}

/** Formats a report as lines of text. */
export function reportText(report: ProbeReport, coloured: boolean): string {
  const paint: Paint = (style, text) =>
    coloured ? `\u001b[${CODES[style]}m${text}\u001b[0m` : text;
  const sections = [
    headline(report, paint),
    facts(report, paint),
    listing('Tools', report.tools, paint, markOf),
    listing('Prompts', report.prompts, paint),
    resources('Resources', report.resources, paint),
    resources('Resource templates', report.resourceTemplates, paint),
    advice(report, paint),
  ];
  return sections.filter((section) => section !== '').join('\n');
}

/** Says in one line what a server speaks, and whether its calls can be resumed. */
export function lineAbout(report: ProbeReport): string {
  const { served, transport, server, tools } = report;
  const isSeen = report.resumption.eventIds === 'seen';
  const bridged = [sessions(report), `${isSeen ? '' : 'resumption '}${resumption(report)}`];
  return [
    server.name ?? 'unnamed',
    `${revision(report)} over ${TRANSPORTS[transport]}`,
    ...(served === 'bridged' ? bridged : ['passed through']),
    `${tools.items.length}${tools.truncated ? ' or more' : ''} tools`,
  ].join('; ');
}

function headline(report: ProbeReport, paint: Paint): string {
  const name = report.url ?? (report.command ?? []).join(' ');
  return `${paint('bold', asOneLine(name, 500))} is ${verdict(report, paint)}\n`;
}

function verdict({ modern, served, transport }: ProbeReport, paint: Paint): string {
  if (served === 'passed-through' && transport === 'stdio')
    return paint('good', 'a modern MCP server over stdio: the gateway makes it one over HTTP');
  if (served === 'passed-through') return paint('good', 'a modern MCP server: it needs no gateway');
  return modern
    ? 'an MCP server of both protocol versions: the gateway bridges it'
    : 'a legacy MCP server';
}

function facts(report: ProbeReport, paint: Paint): string {
  const rows: [string, string][] = [
    ['transport', TRANSPORTS[report.transport]],
    ['revision', revision(report)],
    ['server', serverText(report)],
    ['capabilities', capabilities(report.capabilities)],
  ];
  if (report.served === 'bridged') {
    rows.push(
      ['sessions', sessions(report)],
      ['standalone stream', standaloneStream(report)],
      ['resumption', resumption(report)],
    );
  }
  return rows.map(([name, text]) => `  ${paint('dim', name.padEnd(17))}  ${text}\n`).join('');
}

function revision({ revision, supportedRevisions }: ProbeReport): string {
  const others = (supportedRevisions ?? []).filter((other) => other !== revision);
  return others.length === 0 ? revision : `${revision} (also ${asOneLine(others.join(', '), 80)})`;
}

function serverText({ server: { name, title, version } }: ProbeReport): string {
  if (name === null) return 'unnamed';
  const text = [name, version, title === null || title === name ? null : `(${title})`];
  return asOneLine(text.filter((part) => part !== null).join(' '), MAX_LINE_WIDTH);
}

function capabilities(declared: JsonObject): string {
  const names = Object.entries(declared).map(([name, value]) => {
    const flags = isJsonObject(value)
      ? Object.keys(value).filter((flag) => value[flag] !== false)
      : [];
    return flags.length === 0 ? name : `${name} (${flags.join(', ')})`;
  });
  return names.length === 0 ? 'none' : asOneLine(names.join(', '), 300);
}

function sessions({ sessions: { kind, withoutId, second } }: ProbeReport): string {
  const one = second === 'refused' || second === 'broke' ? '; one at a time' : '';
  if (kind === 'stream') return `the event stream is the session${one}`;
  if (kind === 'process') return 'the process is the session';
  if (kind === 'none') return 'no session id';
  const without = {
    refused: '; refuses requests without one',
    accepted: '; also accepts requests without one',
    'no-answer': '; does not respond to requests without one',
    'not-tried': '',
  };
  return `issues a session id${without[withoutId]}${one}`;
}

function standaloneStream({ standaloneStream: { offered, httpStatus } }: ProbeReport): string {
  const words = {
    yes: 'offered',
    no: `not offered (HTTP ${httpStatus})`,
    'no-answer': 'no response to the GET in time',
    'built-in': 'one stream carries everything',
    'not-tried': 'not tried',
  };
  return words[offered];
}

function resumption({ transport, resumption: found }: ProbeReport): string {
  if (transport !== 'streamable-http') return 'not supported by this transport';
  const status = found.httpStatus === null ? '' : ` (HTTP ${found.httpStatus})`;
  const outcome = {
    replayed: 'accepted: the missed event was replayed',
    opened: 'accepted: a stream opens, but the missed event was not replayed',
    refused: `refused${status}`,
    'no-answer': 'not answered in time',
    'not-tried': 'not tried',
  };
  const words = {
    seen: `events have ids; resumption ${outcome[found.lastEventId]}`,
    'no-events': 'not available: responses are JSON, not event streams',
    'not-seen': 'not available: events have no ids',
    'no-answer': 'unknown: the server did not reply to the ping',
    'not-tried': 'not tried',
  };
  return words[found.eventIds];
}

function markOf({ readOnly, idempotent }: ToolEntry): string {
  const marks = [...(readOnly ? ['read-only'] : []), ...(idempotent ? ['idempotent'] : [])];
  return marks.length === 0 ? '' : `[${marks.join(', ')}]`;
}

function resources(title: string, list: Listing<ResourceEntry>, paint: Paint): string {
  const items = list.items.map((item) => ({
    ...item,
    name: item.uri,
    description: item.description ?? item.name,
  }));
  // A server with resources need not have templates.
  if (title !== 'Resources' && items.length === 0 && list.problem === null) return '';
  return listing(title, { ...list, items }, paint);
}

function listing<Item extends Entry>(
  title: string,
  { declared, items, truncated, problem }: Listing<Item>,
  paint: Paint,
  mark: (item: Item) => string = () => '',
): string {
  if (!declared) return '';
  const shown = items.slice(0, MAX_SHOWN_ITEMS);
  const names = shown.map(({ name }) => asOneLine(name, MAX_NAME_WIDTH));
  const width = Math.max(0, ...names.map((name) => name.length));
  const markWidth = Math.max(0, ...shown.map((item) => mark(item).length));
  const lines = shown.map((item, index) => {
    const name = (names[index] ?? '').padEnd(width);
    const written = mark(item);
    const padding = ' '.repeat(markWidth - written.length);
    const painted = written === '' ? '' : paint('good', written);
    const marked = markWidth === 0 ? '' : `  ${painted}${padding}`;
    const description = asOneLine(item.description ?? '', MAX_LINE_WIDTH - width - markWidth);
    return `${`  ${name}${marked}  ${description}`.trimEnd()}\n`;
  });
  const more = items.length - shown.length;
  if (more > 0) lines.push(paint('dim', `  and ${more} more (--json has them)`) + '\n');
  if (problem !== null)
    lines.push(paint('warn', `  could not be read: ${asOneLine(problem, 200)}`) + '\n');
  const count = `${items.length}${truncated ? ' and more' : ''}`;
  return `${paint('bold', `${title} (${count})`)}\n${lines.join('')}`;
}

function advice({ advice: { config, notes } }: ProbeReport, paint: Paint): string {
  const snippet =
    config === null
      ? ''
      : stringify(config, { lineWidth: 0 }).replace(/^(?=.)/gm, '  ') +
        (notes.length > 0 ? '\n' : '');
  const lines = notes.map((note) => `  - ${wrapped(note)}\n`).join('');
  return `${paint('bold', 'Advice')}\n${snippet}${lines}`;
}

/** Wraps a text at spaces, indented after the dash. */
function wrapped(text: string): string {
  const lines = [''];
  for (const word of text.split(' ')) {
    const line = lines.at(-1) ?? '';
    if (line !== '' && line.length + word.length >= MAX_LINE_WIDTH - 4) lines.push(word);
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`;
  }
  return lines.join('\n    ');
}
