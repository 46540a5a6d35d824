/**
 * Legacy clients of official SDKs in front of servers over stdio. Each plays one session twice, with the server itself over stdio and
 * through the gateway, and has to see the same.
 */
import { mkdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import type { StdioServer } from '../fixtures/gateways/gateway.ts';
import { testGateway } from '../fixtures/gateways/test-gateway.ts';
import { EVERYTHING_STDIO } from '../fixtures/processes.ts';
import { CLIENTS, playWith } from '../fixtures/real-servers/clients/run-client.ts';
import type { Script, Transcript } from '../fixtures/real-servers/clients/script.ts';
import {
  BROWSER,
  EVERYTHING,
  filesystemScript,
  MEMORY,
  PYTHON_SERVERS,
} from '../fixtures/real-servers/clients/scripts.ts';
import { FASTMCP_STDIO, PYTHON_STDIO } from '../fixtures/real-servers/python/python-server.ts';
import { stopAfterTest } from '../fixtures/stop-after-test.ts';

const UUID = /[\da-f]{8}-(?:[\da-f]{4}-){3}[\da-f]{12}/g;
const TIME = /\d{1,2}:\d{2}:\d{2}(?: [AP]M)?/g;

/** An SDK complains of what comes late: progress that it has read together with the response, and all for a call that it cancelled. */
const LATE = /^Received a (?:progress notification|response) for an unknown/;

/**
 * What has to be equal. Ids and times differ, and what comes on different streams has no order. Over stdio the TypeScript SDK loses
 * the last progress if it has read the response with it.
 */
function comparable(transcript: Transcript): unknown {
  const { opened, steps, asked, notifications, problems }: Transcript = JSON.parse(
    JSON.stringify(transcript, (_key, value) =>
      Array.isArray(value) ? value.filter((each) => !isLast(each)) : value,
    )
      .replaceAll(UUID, '<uuid>')
      .replaceAll(TIME, '<time>'),
  );
  const sorted = (all: readonly unknown[]) => all.map((each) => JSON.stringify(each)).sort();
  return {
    ...{ opened, steps, asked: sorted(asked), notifications: sorted(notifications) },
    problems: problems.filter((each) => !LATE.test(each)),
  };
}

/** Whether something is the last progress of a call. */
function isLast(value: unknown): boolean {
  const { progress, total } = (value ?? {}) as { progress?: unknown; total?: unknown };
  return typeof progress === 'number' && progress === total;
}

type Client = (typeof CLIENTS)[number];

/** A server in a state of its own. */
interface Stage {
  readonly server: StdioServer;
  readonly script: Script;
}

/** Plays a script both ways, and checks that the client sees the same, and that nothing is lost on the way. */
async function plays(client: Client, stage: () => Promise<Stage>): Promise<void> {
  const { server, script } = await stage();
  const direct = await playWith(client, server, script);
  const again = await stage();
  // As with `--stdio` on loopback, where the roots of a client are those of the machine.
  const { url, log } = await testGateway({ ...again.server, roots: 'caller' });
  const through = await playWith(client, { url }, again.script);
  expect(comparable(through)).toEqual(comparable(direct));
  await log.saw('legacy_session.ended');
  expect(log.named('legacy_session.lost')).toEqual([]);
}

const FOLDER = join(tmpdir(), `mrtr-clients-${process.pid}`);

/** An empty folder, which is always the same, since its name is in what servers say. */
async function emptyFolder(): Promise<string> {
  await rm(FOLDER, { recursive: true, force: true });
  await mkdir(join(FOLDER, 'inner'), { recursive: true });
  stopAfterTest(() => rm(FOLDER, { recursive: true, force: true }));
  return FOLDER;
}

const node = (module: string, ...args: string[]) => ({
  command: process.execPath,
  args: [fileURLToPath(new URL(`../../node_modules/${module}`, import.meta.url)), ...args],
});

const SERVERS = [
  {
    name: 'server-filesystem',
    tags: [],
    stage: async () => {
      const folder = await emptyFolder();
      const server = node('@modelcontextprotocol/server-filesystem/dist/index.js', folder);
      return { server, script: filesystemScript(folder) };
    },
  },
  {
    name: 'server-memory',
    tags: [],
    stage: async () => {
      const env = { MEMORY_FILE_PATH: join(await emptyFolder(), 'memory.jsonl') };
      const server = { ...node('@modelcontextprotocol/server-memory/dist/index.js'), env };
      return { server, script: MEMORY };
    },
  },
  {
    name: 'a server of the Python SDK 1',
    tags: ['python'],
    stage: async () => ({ server: PYTHON_STDIO, script: PYTHON_SERVERS }),
  },
  {
    name: 'a server of FastMCP 4',
    tags: ['python-2'],
    stage: async () => ({ server: FASTMCP_STDIO, script: PYTHON_SERVERS }),
  },
  {
    name: 'the browser server, without a browser',
    tags: [],
    stage: async () => {
      const args = ['--headless', '--isolated', '--executable-path', '/nowhere/chromium'];
      return { server: node('@playwright/mcp/cli.js', ...args), script: BROWSER };
    },
  },
] as const;

describe.each(CLIENTS)('a client of the $name', (client) => {
  const tags = [...client.tags];

  test('has the same session with server-everything', { tags, timeout: 600_000 }, () =>
    plays(client, async () => ({ server: EVERYTHING_STDIO, script: EVERYTHING })),
  );

  for (const server of SERVERS) {
    const all = [...tags, ...server.tags, 'long' as const];
    test(`has the same session with ${server.name}`, { tags: all, timeout: 600_000 }, () =>
      plays(client, server.stage),
    );
  }
});
