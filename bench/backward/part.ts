/** Legacy clients in front of a modern server: what a question costs, by what the official server asks legacy clients itself. */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { rotated } from '../calls/calls.ts';
import { PRINCIPAL_HEADER } from '../clients/messages.ts';
import { part } from '../part.ts';
import { Child } from '../processes/child.ts';
import { cpuTimeMs } from '../processes/cpu-time.ts';
import { startGateway } from '../processes/gateway-process.ts';
import { median, percentile } from '../report/statistics.ts';
import type { OfficialOptions } from '../sizes.ts';

const SERVER = new URL('./server-process.ts', import.meta.url);
const BARE = new URL('./bare-bridge-process.ts', import.meta.url);
const WAYS = ['gateway', 'shim', 'bare'] as const;
type WayName = (typeof WAYS)[number];

interface Row {
  readonly medianMs: number;
  readonly p99Ms: number;
  readonly serverCpuMs: number;
  /** Of the process between client and server; `null` if there is none. */
  readonly betweenCpuMs: number | null;
}

type BackwardResult = Readonly<Record<WayName, Row>> & { readonly samples: number };

export const backward = part({
  name: 'backward',
  estimateMs: ({ official: { warmUp, samples } }) => 3_000 + 30 * (warmUp + samples),
  measure: ({ folder, options, done }) => measureBackward(folder, options.official, done),
  section: ({ samples, gateway, shim, bare }) => ({
    title: `A question of a modern server to a legacy client: the official client and server, ${samples} of each, in turns`,
    notes: [
      'The tool asks by its result. `shim`: the official server keeps a session for the client, and asks in place of the tool.',
      '`bare`: the least that a bridge of the same parts (node:http, undici) can do, without any check. It sends two requests to the server, too.',
    ],
    tables: [
      {
        rows: [
          ['', 'median ms', 'x shim', 'p99 ms', 'CPU ms of the server', 'CPU ms in between'],
          ['through the gateway', ...cells(gateway, shim)],
          ['through a bare bridge', ...cells(bare, shim)],
          ['shim, direct', ...cells(shim, shim)],
        ],
      },
    ],
  }),
  wanted: [
    {
      what: 'a question of a modern server to a legacy client',
      against: "the official server's shim",
      goal: 'at most 1.2 x',
      measured: ({ gateway, shim }) => `${(gateway.medianMs / shim.medianMs).toFixed(2)} x`,
    },
  ],
});

const cells = ({ medianMs, p99Ms, serverCpuMs, betweenCpuMs }: Row, shim: Row) => [
  medianMs.toFixed(2),
  (medianMs / shim.medianMs).toFixed(2),
  p99Ms.toFixed(2),
  serverCpuMs.toFixed(2),
  betweenCpuMs === null ? '' : betweenCpuMs.toFixed(2),
];

/** A way to ask, with the processes that serve it. */
interface Way {
  readonly client: Client;
  readonly server: Child;
  readonly between: Child | null;
  readonly times: number[];
}

async function measureBackward(
  folder: string,
  { warmUp, samples }: OfficialOptions,
  done: (share: number) => void,
): Promise<BackwardResult> {
  const started: Child[] = [];
  const start = (name: string, script: URL, args: readonly string[] = []) => {
    const child = Child.node(name, script, args);
    started.push(child);
    return child;
  };
  /** One for each way, so that each has its own processor time. */
  const startServer = async () => {
    const server = start('the server', SERVER);
    return { server, origin: `http://127.0.0.1:${await server.port()}` };
  };
  try {
    const [behindGateway, behindBare, shim] = [
      await startServer(),
      await startServer(),
      await startServer(),
    ];
    const upstreamUrl = `${behindGateway.origin}/modern`;
    const gateway = await startGateway({ upstreamUrl, folder, transport: 'auto' });
    started.push(gateway.child);
    const bare = start('the bare bridge', BARE, [`${behindBare.origin}/modern`]);
    const bareUrl = `http://127.0.0.1:${await bare.port()}/mcp`;
    const way = async (url: string, server: Child, between: Child | null): Promise<Way> => {
      return { client: await connect(url), server, between, times: [] };
    };
    const ways: Record<WayName, Way> = {
      gateway: await way(`${gateway.origin}/mcp`, behindGateway.server, gateway.child),
      shim: await way(`${shim.origin}/legacy`, shim.server, null),
      bare: await way(bareUrl, behindBare.server, bare),
    };
    const ask = async (turns: number) => {
      for (let taken = 0; taken < turns; taken += 1) {
        for (const name of rotated(WAYS, taken)) {
          ways[name].times.push(await asked(ways[name].client));
        }
        done((taken + 1) / turns);
      }
    };
    await ask(warmUp);
    const before = timesOf(ways);
    await ask(samples);
    const after = timesOf(ways);
    const row = (name: WayName): Row => {
      const times = ways[name].times.slice(warmUp);
      const [from, to] = [before[name], after[name]];
      return {
        medianMs: median(times),
        p99Ms: percentile(times, 0.99),
        serverCpuMs: (to.server - from.server) / samples,
        betweenCpuMs: ways[name].between === null ? null : (to.between - from.between) / samples,
      };
    };
    const rows = { gateway: row('gateway'), shim: row('shim'), bare: row('bare') };
    await Promise.all(WAYS.map((name) => ways[name].client.close()));
    return { samples, ...rows };
  } finally {
    await Promise.all(started.map((child) => child.stop()));
  }
}

/** The processor times so far, in ms. */
function timesOf(ways: Record<WayName, Way>) {
  const of = ({ server, between }: Way) => ({
    server: cpuTimeMs(server.pid) ?? NaN,
    between: between === null ? 0 : (cpuTimeMs(between.pid) ?? NaN),
  });
  return { gateway: of(ways.gateway), shim: of(ways.shim), bare: of(ways.bare) };
}

async function connect(url: string): Promise<Client> {
  const client = new Client(
    { name: 'bench', version: '1.0.0' },
    { capabilities: { elicitation: { form: {} } } },
  );
  client.setRequestHandler('elicitation/create', () => ({
    action: 'accept',
    content: { name: 'Ada' },
  }));
  const requestInit = { headers: { [PRINCIPAL_HEADER]: 'bench' } };
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
  return client;
}

/** @returns how long the call took with its question, in ms */
async function asked(client: Client): Promise<number> {
  const startedAt = performance.now();
  const result = await client.callTool({ name: 'ask' });
  const tookMs = performance.now() - startedAt;
  if (!JSON.stringify(result).includes('Ada')) throw new Error('not the answer that was given');
  return tookMs;
}
