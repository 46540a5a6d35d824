/**
 * What a call costs at a server over stdio behind the gateway, beside the official client that runs such a server itself, and beside the
 * least that can put it behind HTTP.
 */
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { Connection } from '../clients/load.ts';
import { argumentsOf, markOf, modernCall } from '../clients/messages.ts';
import { compareWays, type Turns, type Way, type WayRow } from '../clients/ways.ts';
import { Child } from '../processes/child.ts';
import type { GatewayProcess } from '../processes/gateway-process.ts';

export type StdioPath =
  'gateway' | 'node:http and the pipe alone (bare)' | 'official client, direct';
export type StdioRow = WayRow<StdioPath>;

const BARE_PIPE = new URL('./bare-pipe-process.ts', import.meta.url);

/** Compares all ways with each number of callers. @param command the server */
export async function compareStdioCalls(
  gateway: GatewayProcess,
  command: readonly [string, ...string[]],
  numbers: readonly number[],
  turns: Turns,
): Promise<StdioRow[]> {
  const bare = Child.node('the bare pipe', BARE_PIPE, command);
  const ways = [overHttp('gateway', gateway.child, gateway.origin), official(command)];
  try {
    const origin = `http://127.0.0.1:${await bare.port()}`;
    ways.push(overHttp('node:http and the pipe alone (bare)', bare, origin));
    const rows: StdioRow[] = [];
    for (const callers of numbers) rows.push(...(await compareWays(ways, callers, turns)));
    return rows;
  } finally {
    await Promise.all(ways.map((way) => way.stop()));
    await bare.stop();
  }
}

/** How many times as long a call takes through the gateway, with so many at once. */
export function toDirect(rows: readonly StdioRow[], callers: number): number | null {
  const rate = (name: StdioPath) =>
    rows.find(({ path, callers: count }) => path === name && count === callers)?.callsPerSecond;
  const [own, direct] = [rate('gateway'), rate('official client, direct')];
  return own === undefined || direct === undefined ? null : direct / own;
}

/** Modern clients of one caller, with a connection each. */
function overHttp(name: StdioPath, proxy: Child, origin: string): Way<StdioPath> {
  const open = async (callers: number) =>
    Array.from({ length: callers }, () => {
      const connection = new Connection(origin, '/mcp', (id) => modernCall('echo', id));
      return {
        call: async () => {
          const { callNumber, text } = await connection.next();
          check(callNumber, text);
        },
        close: () => connection.close(),
      };
    });
  return { name, proxy, open, stop: async () => {} };
}

/** The official client with a process of the server of its own. */
function official([command, ...args]: readonly [string, ...string[]]): Way<StdioPath> {
  const clients: Client[] = [];
  const open = async (callers: number) => {
    const client = new Client({ name: 'bench', version: '1.0.0' });
    await client.connect(new StdioClientTransport({ command, args: [...args], stderr: 'ignore' }));
    clients.push(client);
    let calls = 0;
    return Array.from({ length: callers }, () => ({
      call: async () => {
        calls += 1;
        const callNumber = calls;
        const result = await client.callTool({ name: 'echo', arguments: argumentsOf(callNumber) });
        check(callNumber, JSON.stringify(result));
      },
      close: () => client.close(),
    }));
  };
  const stop = async () => {
    await Promise.all(clients.map((client) => client.close()));
  };
  return { name: 'official client, direct', proxy: null, open, stop };
}

function check(callNumber: number, text: string): void {
  if (!text.includes(markOf(callNumber))) throw new Error(`not the result of its call: ${text}`);
}
