/** The demo is the first thing that people run: it must work, and show what it promises. */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { demoPicture } from '../../../scripts/pictures/demo.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const DEMO = fileURLToPath(new URL('../../../demo/demo.ts', import.meta.url));

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

function runDemo(args: readonly string[]): Promise<Ended> {
  const env = { ...process.env, FORCE_COLOR: '1' };
  return new Promise((resolve) => {
    const child = execFile(process.execPath, [DEMO, ...args], { env }, (_, stdout, stderr) =>
      resolve({ code: child.exitCode, stdout, stderr }),
    );
  });
}

test('the demo shows a question, its answer and the result on the wire, and ends with 0', async () => {
  const { code, stdout, stderr } = await runDemo([]);

  expect(stderr).toBe('');
  expect(code).toBe(0);
  for (const tool of ['trigger-elicitation-request', 'trigger-sampling-request']) {
    expect(stdout.split(`"${tool}"`)).toHaveLength(3);
  }
  const steps = [
    'client ──▶ gateway    tools/call',
    '"input_required"',
    'elicitation-1  elicitation/create',
    'requestState',
    'the user answers',
    'client ──▶ gateway    tools/call',
    'inputResponses',
    '{"action":"accept","content":{"name":"Ada Lovelace","check":true}}',
    '"complete"',
    '- Name: Ada Lovelace',
    '"input_required"',
    'sampling-1  sampling/createMessage',
    'the model answers',
    '"complete"',
    'LLM sampling result',
    'Both calls were asked, answered and completed.',
  ];
  expect(inOrder(steps, stdout)).toEqual(steps);
});

test('without a terminal the demo writes no colours, and never a whole requestState', async () => {
  const { stdout } = await runDemo([]);

  expect(stdout).not.toContain('\u001b');
  expect(stdout).toMatch(/requestState +"[\w-]{16}…" {2}\(\d+ characters\)/);
  expect(stdout).not.toMatch(/[\w-]{40}/);
});

test('the picture of the demo in the README shows what the demo writes', async () => {
  const file = fileURLToPath(new URL('../../../docs/images/demo.svg', import.meta.url));
  // `npm run docs:pictures` makes it anew.
  expect(await demoPicture()).toBe(readFileSync(file, 'utf8'));
});

test('an option that the demo does not know ends it with 1 and a line that says so', async () => {
  const { code, stderr } = await runDemo(['--sreve']);

  expect(code).toBe(1);
  expect(stderr).toMatch(/^demo: Unknown option '--sreve'/);
});

test('a port without --serve ends it with 1 and a line that says what needs it', async () => {
  const { code, stderr } = await runDemo(['--port', '8081']);
  expect(code).toBe(1);
  expect(stderr).toMatch(/^demo: --port needs --serve/);
});

test('a port that is in use ends it with 1 and a line that names --port', async () => {
  const other = createServer().listen(0, '127.0.0.1');
  await once(other, 'listening');
  stopAfterTest(async () => other.close());
  const { port } = other.address() as AddressInfo;
  const { code, stderr } = await runDemo(['--serve', '--port', String(port)]);
  expect(code).toBe(1);
  expect(stderr).toBe(
    `demo: the gateway ended:\n  127.0.0.1:${port} is in use by another process; stop it or choose another address with --port N\n`,
  );
});

test.each(['abc', '65536', '-1'])('a port that is none (%s) ends it with 1', async (port) => {
  const { code, stderr } = await runDemo(['--serve', `--port=${port}`]);
  expect(code).toBe(1);
  expect(stderr).toBe(`demo: --port N needs a number up to 65535, got "${port}"\n`);
});

/** The steps that are found one after the other; it ends where one is missing. */
function inOrder(steps: readonly string[], text: string): string[] {
  const found: string[] = [];
  let from = 0;
  for (const step of steps) {
    const at = text.indexOf(step, from);
    if (at === -1) break;
    found.push(step);
    from = at + step.length;
  }
  return found;
}
