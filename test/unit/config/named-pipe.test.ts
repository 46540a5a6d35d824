/** Files that the configuration names, of a kind that blocks whoever opens it. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';

const LOADER = new URL('../../../src/config/load/load.ts', import.meta.url).href;

test('a secret file that is a pipe without a writer is refused at once', () => {
  const folder = mkdtempSync(join(tmpdir(), 'named-pipe-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const pipe = join(folder, 'secret');
  expect(spawnSync('mkfifo', [pipe]).status).toBe(0);
  const file = join(folder, 'gateway.yaml');
  const headers = `{authorization: "file:${pipe}"}`;
  writeFileSync(
    file,
    `routes: [{upstream: {url: "http://127.0.0.1:1/mcp", headers: ${headers}}}]\n`,
  );
  // In a process of its own, since what waits for a pipe cannot be interrupted.
  const program = `import(${JSON.stringify(LOADER)}).then(({ loadConfig }) => loadConfig(${JSON.stringify(file)}, {})).catch((error) => process.stdout.write(error.message))`;
  const { stdout, signal } = spawnSync(process.execPath, ['--eval', program], {
    encoding: 'utf8',
    timeout: 15_000,
  });
  expect(signal).toBe(null);
  expect(stdout).toContain('it is not a regular file');
});
