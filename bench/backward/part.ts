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
const WAYS = ['gateway', 'shim'] as const;
type WayName = (typeof WAYS)[number];

interface Row {
  readonly medianMs: number;
  readonly p99Ms: number;
  /** Of the server, and of the gateway if there is one. */
  readonly cpuMs: number;
}

type BackwardResult = Readonly<Record<WayName, Row>> & { readonly samples: number };

export const backward = part({
  name: 'backward',
  estimateMs: ({ official: { warmUp, samples } }) => 3_000 + 30 * (warmUp + samples),
  measure: ({ folder, options, done }) => measureBackward(folder, options.official, done),
  section: ({ samples, gateway, shim }) => ({
    title: `A question of a modern server to a legacy client: the official client and server, ${samples} of each, in turns`,
    notes: [
      'The tool asks by its result. `shim`: the official server keeps a session for the client, and asks in place of the tool.',
    ],
    tables: [
      {
        rows: [
          ['', 'median ms', 'p99 ms', 'ms of processor, server and gateway'],
          ['through the gateway', ...cells(gateway)],
          ['shim, direct', ...cells(shim)],
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

const cells = ({ medianMs, p99Ms, cpuMs }: Row) => [
  medianMs.toFixed(2),
  p99Ms.toFixed(2),
  cpuMs.toFixed(2),
];

async function measureBackward(
  folder: string,
  { warmUp, samples }: OfficialOptions,
  done: (share: number) => void,
): Promise<BackwardResult> {
  // One for each way, so that each has its own processor time.
  const [behind, shim] = [Child.node('the server', SERVER, []), Child.node('the shim', SERVER, [])];
  try {
    const upstreamUrl = `http://127.0.0.1:${await behind.port()}/modern`;
    const gateway = await startGateway({ upstreamUrl, folder, transport: 'auto' });
    try {
      const ways: Record<WayName, { client: Client; times: number[]; children: Child[] }> = {
        gateway: {
          client: await connect(`${gateway.origin}/mcp`),
          times: [],
          children: [gateway.child, behind],
        },
        shim: {
          client: await connect(`http://127.0.0.1:${await shim.port()}/legacy`),
          times: [],
          children: [shim],
        },
      };
      const ask = async (turns: number) => {
        for (let taken = 0; taken < turns; taken += 1) {
          for (const way of rotated(WAYS, taken)) {
            ways[way].times.push(await asked(ways[way].client));
          }
          done((taken + 1) / turns);
        }
      };
      await ask(warmUp);
      const before = { gateway: cpuOf(ways.gateway.children), shim: cpuOf(ways.shim.children) };
      await ask(samples);
      const row = (name: WayName): Row => {
        const times = ways[name].times.slice(warmUp);
        const cpuMs = (cpuOf(ways[name].children) - before[name]) / samples;
        return { medianMs: median(times), p99Ms: percentile(times, 0.99), cpuMs };
      };
      const rows = { gateway: row('gateway'), shim: row('shim') };
      await Promise.all(WAYS.map((way) => ways[way].client.close()));
      return { samples, ...rows };
    } finally {
      await gateway.child.stop();
    }
  } finally {
    await Promise.all([behind.stop(), shim.stop()]);
  }
}

function cpuOf(children: readonly Child[]): number {
  return children.reduce((sum, { pid }) => sum + (cpuTimeMs(pid) ?? NaN), 0);
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
