/** `probe` shows on a terminal that it works, and leaves nothing of that behind. */
import { expect, test } from 'vitest';
import { run } from '../../../src/cli/run.ts';
import { EXIT } from '../../../src/cli/exit-codes.ts';
import { testHost } from './test-host.ts';

// Nothing listens on the discard port.
const WORDS = ['probe', 'http://127.0.0.1:9/mcp', '--timeout', '5s'];
const CLEAR_LINE = '\r\u001b[K';
const never = () => Promise.reject(new Error('not in this test'));

test('on a terminal a line shows the time, and is gone when the probe ends', async () => {
  const host = testHost({ errors: 'terminal' });
  expect(await run(WORDS, host, never)).toBe(EXIT.upstream);
  const [first, ...drawn] = host.stderr.text.split(CLEAR_LINE);
  expect(first).toBe('');
  expect(drawn[0]).toBe('probing: 0 s, at most 5 s');
  expect(drawn.at(-1)).toMatch(/^mrtr-gateway: .*127\.0\.0\.1:9.*\n$/);
});

test('elsewhere nothing but the outcome is written', async () => {
  const host = testHost();
  expect(await run(WORDS, host, never)).toBe(EXIT.upstream);
  expect(host.stderr.text).toMatch(/^mrtr-gateway: [^\n]*\n$/);
});
