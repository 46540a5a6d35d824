/**
 * A whole question as an application sees it: the official client calls a tool of server-everything that
 * asks, and answers; through the gateway as a modern client, and as a legacy one directly and through the blind proxy, which
 * makes as many hops as the gateway.
 */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { startEverything } from '../../test/fixtures/processes.ts';
import { rotated } from '../calls/calls.ts';
import { Child } from '../processes/child.ts';
import { startGateway } from '../processes/gateway-process.ts';
import { PRINCIPAL_HEADER } from '../clients/messages.ts';
import type { OfficialOptions } from '../sizes.ts';
import { median, percentile, ratio } from '../report/statistics.ts';

export interface OfficialResult {
  /** Of each way. */
  readonly samples: number;
  readonly gateway: Way;
  readonly blind: Way;
  readonly direct: Way;
}

/** From the call to its result, in ms. */
export interface Way {
  readonly medianMs: number;
  readonly p99Ms: number;
  readonly toDirect: number | null;
  readonly toBlind: number | null;
}

const BLIND_PROXY = new URL('../calls/blind-proxy-process.ts', import.meta.url);
const WAYS = ['gateway', 'blind', 'direct'] as const;
const ADA = { name: 'Ada Lovelace', check: true };

export async function measureOfficial(
  folder: string,
  { warmUp, samples }: OfficialOptions,
  done: (share: number) => void,
): Promise<OfficialResult> {
  const server = await startEverything('streamableHttp');
  const upstreamUrl = `${server.origin}/mcp`;
  const proxy = Child.node('the blind proxy', BLIND_PROXY, [server.origin]);
  try {
    const gateway = await startGateway({ upstreamUrl, folder });
    try {
      const clients = {
        gateway: await connect(`${gateway.origin}/mcp`, true),
        blind: await connect(`http://127.0.0.1:${await proxy.port()}/mcp`, false),
        direct: await connect(upstreamUrl, false),
      };
      const times = { gateway: [] as number[], blind: [] as number[], direct: [] as number[] };
      const all = warmUp + samples;
      for (let taken = 0; taken < all; taken += 1) {
        for (const way of rotated(WAYS, taken)) times[way].push(await ask(clients[way]));
        done((taken + 1) / all);
      }
      await Promise.all(WAYS.map((way) => clients[way].close()));
      const counted = (way: (typeof WAYS)[number]) => times[way].slice(warmUp);
      const [directMs, blindMs] = [median(counted('direct')), median(counted('blind'))];
      const of = (way: (typeof WAYS)[number]): Way => {
        const medianMs = median(counted(way));
        return {
          medianMs,
          p99Ms: percentile(counted(way), 0.99),
          toDirect: ratio(medianMs, directMs),
          toBlind: ratio(medianMs, blindMs),
        };
      };
      return { samples, gateway: of('gateway'), blind: of('blind'), direct: of('direct') };
    } finally {
      await gateway.child.stop();
    }
  } finally {
    await Promise.all([proxy.stop(), server.stop()]);
  }
}

async function connect(url: string, isModern: boolean): Promise<Client> {
  const client = new Client(
    { name: 'bench', version: '1.0.0' },
    {
      capabilities: { elicitation: { form: {} } },
      ...(isModern ? { versionNegotiation: { mode: { pin: '2026-07-28' } } } : {}),
    },
  );
  client.setRequestHandler('elicitation/create', () => ({ action: 'accept', content: ADA }));
  const requestInit = { headers: { [PRINCIPAL_HEADER]: 'bench' } };
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
  return client;
}

/** @returns how long the call took with its question, in ms */
async function ask(client: Client): Promise<number> {
  const startedAt = performance.now();
  const result = await client.callTool({ name: 'trigger-elicitation-request' });
  const tookMs = performance.now() - startedAt;
  if (!JSON.stringify(result).includes(ADA.name)) throw new Error('not the answer that was given');
  return tookMs;
}
