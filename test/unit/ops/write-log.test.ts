import { Writable } from 'node:stream';
import { expect, test } from 'vitest';
import { createLog, type LogOptions } from '../../../src/ops/write-log.ts';

function written(options: Partial<LogOptions>): string {
  let text = '';
  const destination = new Writable({
    write(chunk, _encoding, done) {
      text += String(chunk);
      done();
    },
  });
  const log = createLog({ level: 'info', format: 'json', destination, ...options });
  log.event('session.ended', { route: 'mcp', ms: 1 });
  log.event('upstream.refused', { route: 'mcp', status: 403, said: 'not "you"\n' });
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

test('text is one line for each event', () => {
  expect(written({ format: 'pretty' })).toMatch(
    /^\d\d:\d\d:\d\d\.\d{3} WARN  upstream\.refused route=mcp status=403 said="not .*\(the server refused .*\)\n\d\S+ INFO  gateway\.stopped code=0\n$/,
  );
  expect(written({ format: 'pretty', colors: true })).toContain('\u001b[33mWARN \u001b[0m');
});
