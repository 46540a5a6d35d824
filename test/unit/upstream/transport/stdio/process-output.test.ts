import { expect, test } from 'vitest';
import { ProcessOutput } from '../../../../../src/upstream/transport/stdio/process-output.ts';
import { ManualClock } from '../../../../fixtures/manual-clock.ts';

const KEY = '-----BEGIN KEY-----\nMIIEvQIBADAN\nBgkqhkiG9w0B\n-----END KEY-----\n';

test.each([
  ['each line of it', KEY, ['***', '***', '***', '***']],
  ['its JSON form', `{"key":${JSON.stringify(KEY)}}`, ['{"key":"***"}']],
  ['one that begins with another one', 'abcdefghSECRETTAIL abcdefgh', ['*** ***']],
])('of a secret that a process writes, nothing is shown: %s', (_title, written, shown) => {
  const lines: string[] = [];
  const env = { SHORT: 'abcdefgh', LONG: 'abcdefghSECRETTAIL', KEY };
  const output = new ProcessOutput(env, new ManualClock(), (_stream, line) => lines.push(line));
  for (const line of written.split('\n')) output.wrote('stderr', line);
  expect(lines).toEqual(shown);
});

test('lines without a letter or a digit, such as the frame of a banner, are left out', () => {
  const lines: string[] = [];
  const output = new ProcessOutput({}, new ManualClock(), (_stream, line) => lines.push(line));
  for (const line of ['╭─────╮', '│ FastMCP 3 │', '   ', '=====', 'é'])
    output.wrote('stderr', line);
  expect(lines).toEqual(['│ FastMCP 3 │', 'é']);
});
