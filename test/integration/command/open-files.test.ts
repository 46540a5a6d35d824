/** A process that may open fewer files than the limits that were set come to, or than anybody needs, is told so at start. */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { expect, test } from 'vitest';
import { COMMAND } from '../../fixtures/gateways/command.ts';
import { legacyServer } from '../../fixtures/servers/scripted-server.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

/** What is logged up to the moment when the gateway listens, by a process with this limit. */
async function loggedWith(
  limit: number,
  configured: object | null,
): Promise<Record<string, unknown>[]> {
  const server = await legacyServer(() => {});
  stopAfterTest(() => server.stop());
  const folder = mkdtempSync(join(tmpdir(), 'mrtr-gateway-files-'));
  stopAfterTest(async () => rmSync(folder, { recursive: true }));
  const file = join(folder, 'config.yaml');
  const config = {
    listen: '127.0.0.1:0',
    admin: 'off',
    routes: [
      {
        upstream: { url: server.url, transport: 'streamable-http' },
        ...(configured && { sessions: { max: 58 } }),
      },
    ],
    ...(configured && { limits: configured }),
    log: { format: 'json' },
  };
  writeFileSync(file, JSON.stringify(config));
  const command = 'ulimit -n "$1"; shift; exec "$@"';
  const words = [process.execPath, COMMAND, '--config', file];
  const child = spawn('sh', ['-c', command, 'sh', String(limit), ...words], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  stopAfterTest(async () => child.kill('SIGKILL'));
  const lines: Record<string, unknown>[] = [];
  for await (const line of createInterface({ input: child.stderr })) {
    lines.push(JSON.parse(line) as Record<string, unknown>);
    if (lines.at(-1)?.['event'] === 'gateway.listening') return lines;
  }
  throw new Error(`the gateway ended: ${JSON.stringify(lines)}`);
}

const SMALL = {
  maxConnections: 50,
  maxRunningCalls: 20,
  maxParkedCalls: 30,
  maxParkedCallsPerPrincipal: 30,
};
const warned = (lines: Record<string, unknown>[]) =>
  lines.filter(({ event }) => event === 'gateway.few_open_files');

/** What these limits come to: 50 + (20 + 30) + 58 sessions + 256. */
const NEEDED = 414;

test(
  'too few files are a warning with both numbers, and enough are none',
  { tags: ['linux'] },
  async () => {
    expect(warned(await loggedWith(NEEDED - 1, SMALL))).toEqual([
      expect.objectContaining({ level: 'warn', limit: NEEDED - 1, needed: NEEDED }),
    ]);
    expect(warned(await loggedWith(NEEDED, SMALL))).toEqual([]);
  },
);

test(
  'with nothing configured, only a limit that is low for anybody is a warning',
  { tags: ['linux'] },
  async () => {
    expect(warned(await loggedWith(1024, null))).toEqual([
      expect.objectContaining({ level: 'warn', limit: 1024, needed: 4096 }),
    ]);
    expect(warned(await loggedWith(4096, null))).toEqual([]);
  },
);
