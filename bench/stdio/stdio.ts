/** Clients of one caller in front of a server over stdio, where no question names its call: they call and ask at once, and two do unlike things. */
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { askGateway, retryGateway } from '../clients/gateway-question.ts';
import { Connection } from '../clients/load.ts';
import { modernCall } from '../clients/messages.ts';
import { startGateway } from '../processes/gateway-process.ts';
import { percentile } from '../report/statistics.ts';
import type { StdioOptions } from '../sizes.ts';
import { compareStdioCalls, type StdioRow } from './calls.ts';

export interface StdioResult {
  readonly calls: readonly StdioRow[];
  readonly asking: readonly AskingRow[];
  /** How long `echo` took in one window while a tool that nobody had seen worked in the other one, in ms: first, and after that. */
  readonly besideMs: readonly [first: number, next: number];
  readonly quietMs: number;
}

export interface AskingRow {
  readonly clients: number;
  readonly questionsPerSecond: number;
  /** From the call to its result, in ms. */
  readonly medianMs: number;
}

const SERVER = fileURLToPath(new URL('./server-process.ts', import.meta.url));
const CLIENTS = [1, 16];
/** Has the call of `quiet` begin before the one beside it. */
const HEAD_START_MS = 200;

export async function measureStdio(
  folder: string,
  { runMs, quietMs, calls: turns }: StdioOptions,
  done: (share: number) => void,
): Promise<StdioResult> {
  const command = [process.execPath, '--no-warnings', SERVER] as const;
  const gateway = await startGateway({ command, folder });
  const connect = (tool: 'ask' | 'echo' | 'quiet', more: object = {}) =>
    new Connection(gateway.origin, '/mcp', (id) => modernCall(tool, id, {}, 'bench', more));
  try {
    const calls = await compareStdioCalls(gateway, command, CLIENTS, turns);
    done(0.4);
    const asking: AskingRow[] = [];
    for (const clients of CLIENTS) {
      const connections = Array.from({ length: clients }, () => connect('ask'));
      asking.push(await ask(connections, runMs));
      await Promise.all(connections.map((one) => one.close()));
      done(0.4 + (0.6 * asking.length) / (CLIENTS.length + 1));
    }
    const windows = [connect('quiet', { ms: quietMs }), connect('echo')] as const;
    const [quiet, echo] = windows;
    const timed = async () => {
      const startedAt = performance.now();
      await echo.next();
      return performance.now() - startedAt;
    };
    const working = quiet.next();
    await sleep(HEAD_START_MS);
    const besideMs = [await timed(), await timed()] as const;
    await working;
    await Promise.all(windows.map((one) => one.close()));
    return { calls, asking, besideMs, quietMs };
  } finally {
    await gateway.child.stop();
  }
}

/** Has each client ask, and answer at once, one call after the other. */
async function ask(connections: readonly Connection[], runMs: number): Promise<AskingRow> {
  const tookMs: number[] = [];
  const startedAt = performance.now();
  const loop = async (connection: Connection) => {
    for (let now = startedAt; now - startedAt < runMs; now = performance.now()) {
      await retryGateway(connection, await askGateway(connection));
      tookMs.push(performance.now() - now);
    }
  };
  await Promise.all(connections.map(loop));
  const seconds = (performance.now() - startedAt) / 1_000;
  return {
    clients: connections.length,
    questionsPerSecond: tookMs.length / seconds,
    medianMs: percentile(tookMs, 0.5),
  };
}
