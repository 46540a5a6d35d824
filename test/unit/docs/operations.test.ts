import { Writable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { FAILURES, helpOn, type FailureReason } from '../../../src/model/failures.ts';
import { EVENTS, type LogEvent } from '../../../src/ops/log.ts';
import { Metrics } from '../../../src/ops/metrics.ts';
import { createLog } from '../../../src/ops/write-log.ts';
import { SummedMetrics } from '../../../src/ops/summed-metrics.ts';
import { INVALID_REQUEST_STATE_REASONS } from '../../../src/seal/invalid-request-state.ts';
import { codesIn, tableWith, textOf } from './markdown-tables.ts';

const textOfPage = (page: string) => textOf(`docs/operate/${page}.md`);

describe('the log events of docs/operate/log.md', () => {
  test('are those that the gateway can log, in their order and with their levels', () => {
    const { rows } = tableWith(textOfPage('log'), 'Event', 'Level');
    const described = rows.flatMap(([names, level]) => codesIn(names).map((name) => [name, level]));
    expect(described).toEqual(Object.keys(EVENTS).map((name) => [name, levelOf(name)]));
  });
});

describe('the metrics of docs/operate/metrics.md', () => {
  test('are those that the gateway has of its own, with their types', async () => {
    const { rows } = tableWith(textOfPage('metrics'), 'Metric', 'Type', 'Labels');
    const described = rows.map(([name, type]) => `${codesIn(name)[0]} ${type}`);
    expect(described.sort()).toEqual((await ownMetrics()).sort());
  });

  test('have the recoveries and the reasons as labels that are counted', () => {
    const reasons = tableWith(textOfPage('metrics'), 'Reason', 'Means').rows.flatMap(([cell]) =>
      codesIn(cell),
    );
    expect(reasons).toEqual([...INVALID_REQUEST_STATE_REASONS]);
  });
});

describe('the errors of docs/operate/errors.md', () => {
  const { rows } = tableWith(
    textOfPage('errors'),
    '`data.reason`',
    'Code',
    'HTTP',
    'May have acted',
  );

  test('are those of the catalogue, with code, HTTP statuses and what they say of effects', () => {
    const described = rows.map(([reason = '', code = '', http = '', said = '']) => [
      codesIn(reason)[0] ?? '-',
      { code: Number(code), httpStatuses: http.split(', ').map(Number), said: wordsIn(said) },
    ]);
    const listed = Object.entries(FAILURES).map(
      ([reason, { code, httpStatuses, mayHaveActed }]) => [
        reason,
        { code, httpStatuses, said: mayHaveActed },
      ],
    );
    expect(described).toEqual(listed);
  });

  // Rule failures-9: Each error that the gateway makes names its section of the documentation, in `data.help`.
  test('have a section each, which the error itself names', () => {
    const reasons = Object.keys(FAILURES).filter((reason) => reason !== '-');
    const sections = [...textOfPage('errors').matchAll(/^### ([a-z_]+)$/gm)].map(
      ([, name]) => name,
    );
    expect(sections.toSorted()).toEqual(reasons.toSorted());
    expect(reasons.map((reason) => helpOn(reason as FailureReason))).toEqual(
      reasons.map((reason) => `mrtr-gateway/docs/operate/errors.md#${reason}`),
    );
  });
});

function wordsIn(cell: string): string[] {
  return cell === '-' ? [] : cell.split(', ');
}

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
  // Lines about calls wait for others; this one is written at once.
  log.event('gateway.stopped', { code: 0 });
  const line: unknown = JSON.parse(written.split('\n')[0] ?? '');
  return (line as { level: string }).level;
}

/** Names and types, without what every Node.js process has. */
async function ownMetrics(): Promise<string[]> {
  const metrics = new Metrics(Date, {
    parked: () => new Map(),
    released: () => new Map(),
    sessions: () => new Map(),
    tasks: () => new Map(),
    upstreamsUp: () => new Map(),
    running: () => 0,
    connections: () => 0,
    limits: () => new Map(),
    circuitsOpen: () => new Map(),
    redisUp: () => true,
    clockAheadMs: () => 0,
  });
  const reloads = () => ({ isSuccessful: true, succeededAtMs: 0 });
  const ofPrimary = new SummedMetrics(() => 2, reloads);
  const text = await ofPrimary.text(new Map([[1, await metrics.snapshot()]]));
  return text
    .split('\n')
    .filter((line) => line.startsWith('# TYPE '))
    .map((line) => line.replace('# TYPE ', ''))
    .filter((line) => !/^(?:process|nodejs)_/.test(line));
}
