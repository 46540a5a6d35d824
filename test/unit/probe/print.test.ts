import { describe, expect, test } from 'vitest';
import { advise } from '../../../src/probe/advice.ts';
import { jsonText, reportText } from '../../../src/probe/print.ts';
import type { Findings, ProbeReport, ResumptionReport } from '../../../src/probe/report.ts';
import { findings, listing, PLAIN } from './findings.ts';

function reportOf(also: Partial<Findings> = {}): ProbeReport {
  const found = findings(also);
  return { ...found, advice: advise(found, PLAIN) };
}

test('people get aligned lines', () => {
  expect(reportText(reportOf(), false)).toBe(`http://127.0.0.1:3001/mcp is a legacy MCP server

  transport          Streamable HTTP
  revision           2025-06-18
  server             files 1.0.0
  capabilities       tools (listChanged), logging
  sessions           issues a session id; refuses requests without one
  standalone stream  offered
  resumption         events have ids; resumption accepted: the missed event was replayed

Tools (3)
  read    [read-only]   Reads a file
  delete  [idempotent]  Deletes it
  append

Advice
  routes:
    - path: /mcp
      upstream:
        url: http://127.0.0.1:3001/mcp
        transport: streamable-http

  - All calls of a caller share a session, so the next call finds what the server keeps in it. With
    several replicas, this needs relay, with redis. When the replica that has the session ends,
    another one takes it over.
  - parking.release: when-resumable is possible: a parked call then holds no connection.
  - The file above does not set it: only a call that asks shows whether the server also sends new
    events on a resumed stream, and this probe made none, since a tool can have effects. If the
    server does not, results arrive about 5 seconds late. To find out, name a harmless tool that
    asks: probe --call TOOL.
  - 2 tools are annotated as read-only or idempotent. If you trust that, set
    continuation.replay.annotated: true, so that lost calls are repeated.
`);
});

test('colours change nothing but colours', () => {
  const report = reportOf();
  const coloured = reportText(report, true);
  expect(coloured).toContain('\u001b[');
  expect(coloured.replaceAll(/\u001b\[\d+m/g, '')).toBe(reportText(report, false));
});

test('programs get the whole report, and their names do not change', () => {
  const text = jsonText(reportOf());
  expect(text.endsWith('}\n')).toBe(true);
  expect(JSON.parse(text)).toEqual(reportOf());
  expect(Object.keys(reportOf())).toEqual([
    'format',
    'url',
    'command',
    'modern',
    'clockAheadMs',
    'served',
    'onlyModern',
    'transport',
    'revision',
    'supportedRevisions',
    'server',
    'capabilities',
    'sessions',
    'standaloneStream',
    'resumption',
    'realCall',
    'tools',
    'prompts',
    'resources',
    'resourceTemplates',
    'advice',
  ]);
});

describe('resumption is told as it was seen', () => {
  test.each<[Partial<ResumptionReport>, string]>([
    [{ lastEventId: 'opened' }, 'events have ids; resumption accepted: a stream opens, but'],
    [{ lastEventId: 'refused', httpStatus: 400 }, 'events have ids; resumption refused (HTTP 400)'],
    [{ lastEventId: 'no-answer' }, 'events have ids; resumption not answered in time'],
    [{ eventIds: 'not-seen' }, 'not available: events have no ids'],
    [{ eventIds: 'no-events' }, 'not available: responses are JSON, not event streams'],
    [{ eventIds: 'no-answer' }, 'unknown: the server did not reply to the ping'],
  ])('%o', (also, words) => {
    const resumption = { eventIds: 'seen', lastEventId: 'not-tried', httpStatus: null } as const;
    const text = reportText(reportOf({ resumption: { ...resumption, ...also } }), false);
    expect(text).toContain(`  resumption         ${words}`);
  });
});

describe('lists', () => {
  test('that are long are cut for people, and say so', () => {
    const items = Array.from({ length: 60 }, (_, index) => ({
      name: `tool-${index}`,
      description: null,
      readOnly: false,
      idempotent: false,
    }));
    const text = reportText(reportOf({ tools: listing(items, { truncated: true }) }), false);
    expect(text).toContain('Tools (60 and more)\n');
    expect(text).toContain('  and 10 more (--json has them)\n');
    expect(text).not.toContain('tool-50');
  });

  test('that could not be read say why', () => {
    const text = reportText(reportOf({ tools: listing([], { problem: 'HTTP 403' }) }), false);
    expect(text).toContain('Tools (0)\n  could not be read: HTTP 403\n');
  });
});
