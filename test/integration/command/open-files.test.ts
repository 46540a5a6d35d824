/** A process that may open fewer files than the limits that were set come to, or than anybody needs, is told so at start. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Agent, request, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';
import { json } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { modernBody, modernHeaders } from '../../fixtures/clients/modern-client.ts';
import { COMMAND } from '../../fixtures/gateways/command.ts';
import { legacyServer as realServer, replica } from '../../fixtures/gateways/replica-testbed.ts';
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

// A process that may open no more files serves what needs none. A connection for which it has no file fails
// with `upstream_unavailable`, the log says why, and the server does not count as down.
test(
  'without open files, what needs one fails, and the log says why',
  { tags: ['linux'] },
  async () => {
    const legacy = await realServer({ tools: { work: async () => 'done' } });
    const gateway = await replica(legacy, {
      relay: false,
      within: ['sh', '-c', 'ulimit -n 64; exec "$@"', 'sh'],
    });
    const { hostname, port } = new URL(gateway.url);
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    stopAfterTest(async () => agent.destroy());
    const call = (caller: string) => callOver(agent, gateway.url, caller);
    expect(await call('the first caller')).toBeUndefined();
    for (let count = 0; count < 80; count += 1) {
      const socket = connect({ host: hostname, port: Number(port) }).on('error', () => {});
      stopAfterTest(async () => socket.destroy());
      await new Promise((settled) => socket.once('connect', settled).once('close', settled));
    }
    // The connection of the first request is used again. Sessions of other callers need connections of their own.
    const reasons: unknown[] = [];
    for (let index = 0; index < 40; index += 1) reasons.push(await call(`caller ${index}`));
    const failures = reasons.filter((reason) => reason !== undefined);
    expect(failures.length).toBeGreaterThan(20);
    expect(new Set(failures)).toEqual(new Set(['upstream_unavailable']));
    const [failed] = gateway.named('upstream.failed');
    expect(failed?.['problem']).toMatch(/EMFILE.*ulimit -n/);
    expect(await call('the first caller')).toBeUndefined();
    expect(gateway.named('upstream.circuit_opened')).toEqual([]);
    expect(gateway.named('edge.failed')).toEqual([]);
  },
);

/** Calls the tool over the only connection of an agent. @returns the reason of the failure, if it failed */
async function callOver(agent: Agent, url: string, caller: string): Promise<unknown> {
  const asked = request(url, {
    agent,
    method: 'POST',
    headers: {
      ...modernHeaders('tools/call', { name: 'work' }),
      authorization: `Bearer ${caller}`,
    },
  });
  asked.end(JSON.stringify(modernBody('tools/call', { name: 'work', arguments: {} })));
  const [response] = (await once(asked, 'response')) as [IncomingMessage];
  const reply = (await json(response)) as { error?: { data?: { reason?: unknown } } };
  return reply.error && (reply.error.data?.reason ?? 'no reason');
}
