import { describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { advise, type ProbeContext } from '../../../src/probe/advice.ts';
import type { Findings, RealCallReport, ResumptionReport } from '../../../src/probe/report.ts';
import { configOf } from '../config/problems-of.ts';
import { findings, listing, PLAIN } from './findings.ts';

const adviceFor = (also: Partial<Findings> = {}, circumstances: Partial<ProbeContext> = {}) =>
  advise(findings(also), { ...PLAIN, ...circumstances });

test('the snippet is a configuration that loads, and says what the notes say', () => {
  const { config } = adviceFor({}, { headerNames: ['authorization', 'x-tenant-id'] });
  const env = { UPSTREAM_AUTHORIZATION: 'Bearer t', UPSTREAM_X_TENANT_ID: 'a' };
  const [route] = configOf(stringify(config), { env }).routes;
  expect(route?.upstream).toMatchObject({
    transport: 'streamable-http',
    headers: { authorization: 'Bearer t', 'x-tenant-id': 'a' },
  });
  expect(route?.parking.release).toBe('never');
});

describe('parking.release', () => {
  const nothing: ResumptionReport = {
    eventIds: 'seen',
    lastEventId: 'not-tried',
    httpStatus: null,
  };

  test.each<[ResumptionReport['lastEventId'], string]>([
    ['replayed', 'possible'],
    ['opened', 'unproven'],
    ['refused', 'impossible'],
    ['no-answer', 'impossible'],
    ['not-tried', 'impossible'],
  ])('resumption %s makes it %s', (lastEventId, release) => {
    const advice = adviceFor({ resumption: { ...nothing, lastEventId } });
    expect(advice.releaseWhenResumable).toBe(release);
    // Only a real call shows whether it works well.
    expect(JSON.stringify(advice.config)).not.toContain('when-resumable');
  });

  const called = (outcome: RealCallReport['outcome'], problem: string | null = null) =>
    adviceFor({
      realCall: { tool: 'ask', outcome, answerMs: outcome === 'resumed' ? 7 : null, problem },
    });

  test('is proposed once a real call was resumed, with how long its answer took', () => {
    const { config, notes } = called('resumed');
    expect(JSON.stringify(config)).toContain('"release":"when-resumable"');
    expect(notes.join(' ')).toContain('7 ms after the answer');
  });

  test.each([
    ['late', 'did not come within 3 seconds'],
    ['not-asked', 'asked nothing'],
    ['tool-error', 'the call of ask asked nothing and ended with an error of the tool, so'],
    ['held-back', 'the call of ask was taken, and nothing came in 5 seconds'],
    ['failed', 'did not accept the call of ask.'],
  ] as const)('is not proposed after a call that was %s, and says so', (outcome, words) => {
    const { config, notes } = called(outcome);
    expect(JSON.stringify(config)).not.toContain('when-resumable');
    expect(notes.join(' ')).toContain(words);
  });

  test.each(['tool-error', 'failed'] as const)(
    'quotes what the server says of a call that was %s',
    (outcome) => {
      expect(called(outcome, 'Invalid arguments').notes.join(' ')).toContain(
        ': "Invalid arguments"',
      );
    },
  );

  test('says that a call was made although it verified nothing', () => {
    const resumption = {
      eventIds: 'not-seen',
      lastEventId: 'not-tried',
      httpStatus: null,
    } as const;
    const realCall = {
      tool: 'ask',
      outcome: 'tool-error',
      answerMs: null,
      problem: 'no name',
    } as const;
    const { notes } = adviceFor({ resumption, realCall });
    expect(notes.join(' ')).toMatch(
      /events have no ids.*The call of ask was sent.*an error: "no name"/,
    );
  });

  test('says why no call was made', () => {
    expect(adviceFor().notes.join(' ')).toContain('--call TOOL');
  });

  test('is impossible without a session id, whatever the events say', () => {
    const sessions = {
      kind: 'none',
      withoutId: 'not-tried',
      deleteStatus: null,
      second: 'not-tried',
    } as const;
    expect(adviceFor({ sessions }).releaseWhenResumable).toBe('impossible');
  });
});

test.each<[Findings['sessions']['kind'], RegExp]>([
  [
    'session-id',
    /all calls of a caller share a session.*relay, with redis.*another one takes it over/i,
  ],
  ['stream', /all calls of a caller share a session.*one after the other.*no other replica/i],
  ['none', /issues no session id/],
])('what becomes of the state of a caller is said for sessions by %s', (kind, expected) => {
  const sessions = {
    kind,
    withoutId: 'not-tried',
    deleteStatus: null,
    second: 'not-tried',
  } as const;
  expect(adviceFor({ sessions }).notes.join(' ')).toMatch(expected);
});

test('tools that are annotated are counted, those that are not are left alone', () => {
  const { annotatedTools, notes } = adviceFor();
  expect(annotatedTools).toEqual(['read', 'delete']);
  expect(notes.join('\n')).toMatch(/^2 tools .* continuation\.replay\.annotated: true/m);
});

// Rule lists-10: `probe` counts the tools with schemas of older dialects, and names those that `tools.schemas:
// compatible` cannot convert.
test('tools with schemas of an older dialect are counted, and named if their schemas are left', () => {
  const tool = { description: null, readOnly: false, idempotent: false };
  const taken = { ...tool, name: 'read', olderDialect: 'taken-off' } as const;
  const left = { ...tool, name: 'move', olderDialect: 'left' } as const;
  const notesFor = (...items: (typeof taken | typeof left)[]) =>
    adviceFor({ tools: listing(items) }).notes.join('\n');
  expect(adviceFor().notes.join('\n')).not.toContain('dialect');
  expect(notesFor(taken)).toMatch(/^1 tool has a schema of an older dialect .* in 2020-12\.$/m);
  expect(notesFor(taken, left)).toMatch(/^2 tools have schemas .* It leaves those of move\.$/m);
});

test('a modern server gets no snippet', () => {
  expect(adviceFor({ modern: true, served: 'passed-through' })).toMatchObject({
    gatewayNeeded: false,
    config: null,
  });
});

test('what was left out is said', () => {
  const notes = adviceFor({}, { query: true }).notes.join('\n');
  expect(notes).toMatch(/^Add the query of your URL/m);
});
