import { globSync, readFileSync } from 'node:fs';
import { Writable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import type { RefusalReason } from '../../../src/model/outcome.ts';
import {
  ANSWERS_NOT_TAKEN,
  CALL_CANCELLED,
  CALL_LOST,
  COORDINATION_UNAVAILABLE,
  ELICITATION_DECLINED,
  failureOfUpstream,
  illFormedAnswer,
  INVALID_STATE,
  missingCapability,
  notAnswerable,
  OVERLOADED,
  refusal,
} from '../../../src/model/failures.ts';
import * as failures from '../../../src/model/failures.ts';
import type { Failure } from '../../../src/model/outcome.ts';
import { createLog, type LogEvent } from '../../../src/ops/log.ts';
import { Metrics } from '../../../src/ops/metrics.ts';
import { INVALID_REQUEST_STATE_REASONS } from '../../../src/seal/invalid-request-state.ts';
import { UpstreamFailure, type UpstreamFailureCode } from '../../../src/upstream/failure.ts';
import { codesIn, pathOf, tableWith, textOf } from './markdown-tables.ts';

const DOCUMENT = textOf('docs/operations.md');

describe('the log events of docs/operations.md', () => {
  const rows = tableWith(DOCUMENT, 'Event', 'Level').rows;

  test('are those that the gateway can log, in their order', () => {
    expect(rows.flatMap(([name]) => codesIn(name))).toEqual(logEvents());
  });

  test.each(rows.map(([name = '', level = '']) => [codesIn(name)[0] ?? '', level]))(
    '%s is logged at level %s',
    (name, level) => {
      expect(levelOf(name)).toBe(level);
    },
  );

  test('are each logged by something', () => {
    const sources = globSync('src/**/*.ts', { cwd: pathOf('.') })
      .filter((file) => !file.startsWith('src/ops/'))
      .map((file) => readFileSync(pathOf(file), 'utf8'));
    const silent = logEvents().filter(
      (name) => !sources.some((source) => source.includes(`'${name}'`)),
    );
    expect(silent).toEqual([]);
  });
});

describe('the metrics of docs/operations.md', () => {
  test('are those that the gateway has of its own, with their types', async () => {
    const { rows } = tableWith(DOCUMENT, 'Metric', 'Type', 'Labels');
    const described = rows.map(([name, type]) => `${codesIn(name)[0]} ${type}`);
    expect(described.sort()).toEqual((await ownMetrics()).sort());
  });

  test('have the rungs and the reasons as labels that are counted', () => {
    const reasons = tableWith(DOCUMENT, 'Reason', 'Means').rows.flatMap(([cell]) => codesIn(cell));
    expect(reasons).toEqual([...INVALID_REQUEST_STATE_REASONS]);
  });
});

describe('the errors of docs/operations.md', () => {
  const { rows } = tableWith(DOCUMENT, '`data.reason`', 'Code', 'HTTP');
  const described = new Map(
    rows.map(([reason = '', code = '', http = '']) => [
      codesIn(reason)[0] ?? '-',
      { code: Number(code), statuses: http.split(', ').map(Number) },
    ]),
  );

  test.each(everyFailure())(
    '%s has the code and the status that the bridge gives it',
    (_name, failure) => {
      const entry = described.get(reasonOf(failure));
      expect(entry?.code).toBe(failure.error.code);
      expect(entry?.statuses).toContain(failure.httpStatus);
    },
  );

  test('leave out no failure that the bridge has', () => {
    expect(Object.keys(failures).sort()).toEqual([
      'ANSWERS_NOT_TAKEN',
      'CALL_CANCELLED',
      'CALL_LOST',
      'COORDINATION_UNAVAILABLE',
      'ELICITATION_DECLINED',
      'INVALID_STATE',
      'OVERLOADED',
      'STOPPING',
      'failureOfUpstream',
      'illFormedAnswer',
      'missingCapability',
      'notAnswerable',
      'refusal',
    ]);
  });

  test('name no reason that nothing in the gateway gives', () => {
    const sources = globSync('src/**/*.ts', { cwd: pathOf('.') }).map((file) =>
      readFileSync(pathOf(file), 'utf8'),
    );
    const unknown = [...described.keys()].filter(
      (reason) => reason !== '-' && !sources.some((source) => source.includes(`'${reason}'`)),
    );
    expect(unknown).toEqual([]);
  });
});

/** The names stand in a type, which is gone when the program runs. */
function logEvents(): string[] {
  const [members = ''] = /interface LogEvents \{[^]*?\n\}/.exec(textOf('src/ops/log.ts')) ?? [];
  return [...members.matchAll(/^ {2}'([a-z_.]+)':/gm)].map(([, name = '']) => name);
}

const LEVELS: Readonly<Record<number, string>> = {
  10: 'trace',
  20: 'debug',
  30: 'info',
  40: 'warn',
  50: 'error',
  60: 'fatal',
};

function levelOf(name: string): string | undefined {
  let written = '';
  const destination = new Writable({
    write(chunk, _encoding, done) {
      written += String(chunk);
      done();
    },
  });
  const log = createLog({ level: 'trace', format: 'json', destination });
  log.event(name as LogEvent, {} as never);
  const line: unknown = JSON.parse(written);
  return LEVELS[(line as { level: number }).level];
}

/** Names and types, without what every Node.js process has. */
async function ownMetrics(): Promise<string[]> {
  const metrics = new Metrics({
    parked: () => new Map(),
    sessions: () => new Map(),
    redisUp: () => true,
  });
  const lines = (await metrics.text()).split('\n').filter((line) => line.startsWith('# TYPE '));
  return lines
    .map((line) => line.replace('# TYPE ', ''))
    .filter((line) => !/^(?:process|nodejs)_/.test(line));
}

function everyFailure(): [string, Failure][] {
  const refusals: RefusalReason[] = ['lot_full', 'too_many_rounds', 'timeout', 'draining'];
  const codes: UpstreamFailureCode[] = [
    'unauthorized',
    'upstream_busy',
    'upstream_unavailable',
    'upstream_timeout',
    'upstream_protocol_error',
    'session_gone',
  ];
  return [
    ['a bad requestState', INVALID_STATE],
    ['a lost call', CALL_LOST],
    ['too many calls', OVERLOADED],
    ['a cancelled call', CALL_CANCELLED],
    ['answers that did not arrive', ANSWERS_NOT_TAKEN],
    ['a call that cannot be claimed', COORDINATION_UNAVAILABLE],
    ['a URL that was declined', ELICITATION_DECLINED],
    ['a capability that is missing', missingCapability({ roots: {} })],
    ['a question that nobody could answer', notAnswerable('no_session_id')],
    ['an answer of the wrong form', illFormedAnswer('key', 'problem')],
    ...refusals.map((reason): [string, Failure] => [`refused: ${reason}`, refusal(reason)]),
    ...codes.map((code): [string, Failure] => [
      `upstream: ${code}`,
      failureOfUpstream(new UpstreamFailure(code, 'it failed', { mayHaveActed: true })),
    ]),
    [
      'upstream: forbidden',
      failureOfUpstream(
        new UpstreamFailure('unauthorized', 'no', { mayHaveActed: false, httpStatus: 403 }),
      ),
    ],
  ];
}

function reasonOf({ error: { data } }: Failure): string {
  return typeof data === 'object' && data !== null && 'reason' in data ? String(data.reason) : '-';
}
