import { Writable } from 'node:stream';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createLog, type LogOptions } from '../../../src/ops/write-log.ts';
import { callId } from '../../../src/protocol/ids.ts';

const escapeOf = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;

function written(options: Partial<LogOptions>, said = 'not "you"\n'): string {
  let text = '';
  const destination = new Writable({
    write(chunk, _encoding, done) {
      text += String(chunk);
      done();
    },
  });
  const log = createLog({ level: 'info', format: 'json', destination, ...options });
  log.event('session.ended', { route: 'mcp', ms: 1 });
  log.event('upstream.refused', { route: 'mcp', status: 403, said });
  log.event('gateway.stopped', { code: 0 });
  return text;
}

test('JSON has the names of levels and the time in ISO 8601', () => {
  const lines = written({})
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as object);
  const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  expect(lines).toEqual([
    {
      level: 'warn',
      time,
      event: 'upstream.refused',
      route: 'mcp',
      status: 403,
      said: 'not "you"\\u000a',
      msg: expect.stringMatching(/^the server refused/),
    },
    { level: 'info', time, event: 'gateway.stopped', code: 0, msg: 'gateway.stopped' },
  ]);
});

test('a JSON line is JSON in one line, whatever a field says', () => {
  const said = fc.oneof(
    fc.string({ maxLength: 300 }),
    fc.string({ unit: 'binary', maxLength: 300 }),
  );
  fc.assert(
    fc.property(said, (text) => {
      const [line = ''] = written({}, text).split('\n');
      const read = JSON.parse(line) as { said: string };
      const escaped = text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (unseen) =>
        unseen.split('').map(escapeOf).join(''),
      );
      expect(read.said).toBe(escaped.length > 256 ? `${escaped.slice(0, 256)}…` : escaped);
    }),
  );
});

test.each(['json', 'pretty'] as const)(
  'characters that are invisible, or turn text around, are escaped in %s',
  (format) => {
    const text = written({ format }, 'a\u202eb\u2066c\u200bd\u2028e\ufefff\u{e0041}g\u009bh');
    expect(text).not.toMatch(/[\p{Cf}\p{Zl}\p{Zp}]/u);
    const backslash = format === 'json' ? '\\\\' : '\\';
    const codes = ['202e', '2066', '200b', '2028', 'feff', 'db40'];
    for (const code of codes) expect(text).toContain(`${backslash}u${code}`);
  },
);

test('text is one line for each event', () => {
  expect(written({ format: 'pretty' })).toMatch(
    /^\d\d:\d\d:\d\d\.\d{3} WARN  upstream\.refused route=mcp status=403 said="not .*\(the server refused .*\)\n\d\S+ INFO  gateway\.stopped code=0\n$/,
  );
  expect(written({ format: 'pretty', colors: true })).toContain('\u001b[33mWARN \u001b[0m');
});

test('the lines of a round are written after what is being done, and before any other line', async () => {
  const pieces: string[] = [];
  const destination = new Writable({
    write(chunk, _encoding, done) {
      pieces.push(String(chunk));
      done();
    },
  });
  const log = createLog({ level: 'info', format: 'json', destination });
  const call = { route: 'mcp', call: callId('call') };
  const eventsIn = (piece: string | undefined) =>
    (piece ?? '')
      .trim()
      .split('\n')
      .map((line) => (JSON.parse(line) as { readonly event: string }).event);
  log.event('call.parked', { ...call, round: 1, questions: 1 });
  log.event('call.result_ready', { ...call, round: 1 });
  await Promise.resolve();
  expect(pieces).toEqual([]);
  // A request over an idle connection is sent in the next turn.
  await new Promise((resolve) => setImmediate(resolve));
  expect(pieces).toEqual([]);
  await new Promise((resolve) => setImmediate(resolve));
  expect(pieces.map(eventsIn)).toEqual([['call.parked', 'call.result_ready']]);
  log.event('call.parked', { ...call, round: 2, questions: 1 });
  log.event('gateway.stopped', { code: 0 });
  expect(eventsIn(pieces[1])).toEqual(['call.parked', 'gateway.stopped']);
});

test('a reader that takes nothing is owed 4 MiB at most, and is told how many lines are missing', () => {
  const taken: string[] = [];
  let isReading = false;
  const waiting: (() => void)[] = [];
  const destination = new Writable({
    write(chunk, _encoding, done) {
      taken.push(String(chunk));
      if (isReading) done();
      else waiting.push(done);
    },
  });
  const log = createLog({ level: 'info', format: 'json', destination });
  const problem = 'x'.repeat(1_000);
  for (let index = 0; index < 10_000; index += 1) log.event('traces.off', { problem });
  const owed = destination.writableLength;
  expect(owed).toBeGreaterThan(4 * 1024 * 1024);
  expect(owed).toBeLessThan(4 * 1024 * 1024 + 2_000);
  const lineBytes = taken[0]?.length ?? 0;
  const missing = 10_000 - owed / lineBytes;

  isReading = true;
  for (const done of waiting) done();
  log.event('gateway.stopped', { code: 0 });
  const [dropped, last] = taken.join('').trimEnd().split('\n').slice(-2);
  expect(JSON.parse(String(dropped))).toMatchObject({ event: 'log.dropped', lines: missing });
  expect(JSON.parse(String(last))).toMatchObject({ event: 'gateway.stopped' });
});
