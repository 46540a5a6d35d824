/** The ways of a legacy client to a server over stdio: its pipe itself, the gateway, and other programs that put such a server behind HTTP. */
import { spawn, spawnSync } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { freePort } from '../../test/fixtures/processes.ts';
import { openLegacySession } from '../clients/legacy-session.ts';
import { Connection } from '../clients/load.ts';
import type { Way, WayCaller } from '../clients/ways.ts';
import { legacyCall, legacyInitialize } from '../clients/messages.ts';
import { Child } from '../processes/child.ts';
import { startGateway } from '../processes/gateway-process.ts';

const SERVER = fileURLToPath(new URL('../stdio/server-process.ts', import.meta.url));
const COMMAND = [process.execPath, '--no-warnings', SERVER] as const;
const SUPERGATEWAY = new URL('../../node_modules/supergateway/dist/index.js', import.meta.url);
const START_MS = 20_000;

export type PathName = 'direct' | 'gateway' | 'supergateway' | 'mcp-proxy';

export type LegacyWay = Way<PathName>;

/** Starts all that are installed. */
export async function startWays(folder: string): Promise<LegacyWay[]> {
  const gateway = await startGateway({ command: COMMAND, folder });
  return [
    directWay(),
    httpWay('gateway', gateway.child, gateway.origin),
    await startSupergateway(),
    ...(await startMcpProxy()),
  ];
}

/** Writes to the standard input of the server, and reads its standard output. */
function directWay(): LegacyWay {
  const children = new Set<ReturnType<typeof spawn>>();
  const open = async (callers: number): Promise<WayCaller[]> => {
    const [command, ...args] = COMMAND;
    const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'ignore'] });
    children.add(child);
    const waiting = new Map<number, () => void>();
    createInterface({ input: child.stdout }).on('line', (line) => {
      waiting.get((JSON.parse(line) as { readonly id: number }).id)?.();
    });
    const send = (id: number, body: string) =>
      new Promise<void>((resolve) => {
        waiting.set(id, () => {
          waiting.delete(id);
          resolve();
        });
        child.stdin.write(`${body}\n`);
      });
    await send(0, legacyInitialize().body);
    let calls = 0;
    return Array.from({ length: callers }, () => ({
      call: () => send((calls += 1), legacyCall('echo', calls, '').body),
      close: async () => void child.kill(),
    }));
  };
  const stop = async () => {
    for (const child of children) child.kill('SIGKILL');
  };
  return { name: 'direct', proxy: null, open, stop };
}

function httpWay(name: PathName, proxy: Child, origin: string, path = '/mcp'): LegacyWay {
  const open = async (callers: number): Promise<WayCaller[]> => {
    const session = await openLegacySession(`${origin}${path}`);
    return Array.from({ length: callers }, (_, index) => {
      // No id may be used twice at once in a session.
      const call = (id: number) => legacyCall('echo', id * callers + index, session);
      const connection = new Connection(origin, path, call);
      return {
        call: async () => {
          await connection.next();
        },
        close: async () => connection.close(),
      };
    });
  };
  return { name, proxy, open, stop: () => proxy.stop() };
}

async function startSupergateway(): Promise<LegacyWay> {
  const port = await freePort();
  const stdio = COMMAND.map((part) => `"${part}"`).join(' ');
  const transport = ['--outputTransport', 'streamableHttp', '--stateful', '--logLevel', 'none'];
  const args = ['--stdio', stdio, ...transport, '--port', String(port)];
  return ready(
    httpWay(
      'supergateway',
      Child.node('supergateway', SUPERGATEWAY, args),
      `http://127.0.0.1:${port}`,
    ),
  );
}

/** @returns nothing where it is not on the `PATH` */
async function startMcpProxy(): Promise<LegacyWay[]> {
  if (spawnSync('mcp-proxy', ['--version']).error !== undefined) return [];
  const port = await freePort();
  const [command, ...args] = COMMAND;
  const child = Child.program('mcp-proxy', 'mcp-proxy', [
    '--port',
    String(port),
    '--',
    command,
    ...args,
  ]);
  return [await ready(httpWay('mcp-proxy', child, `http://127.0.0.1:${port}`, '/mcp/'))];
}

/** Resolves when a session can be opened. @throws Error after 20 s, or when the program has ended */
async function ready(way: LegacyWay): Promise<LegacyWay> {
  const giveUpAt = performance.now() + START_MS;
  for (;;) {
    try {
      for (const caller of await way.open(1)) await caller.close();
      return way;
    } catch (error) {
      if (way.proxy?.ended === true || performance.now() > giveUpAt) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}
