/**
 * A whole question as an application sees it: the official client calls a tool of server-everything that
 * asks, and answers; through the gateway as a modern client, and directly as a legacy one.
 */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { startEverything } from '../../test/fixtures/processes.ts';
import { startGateway } from '../processes/gateway-process.ts';
import { PRINCIPAL_HEADER } from '../clients/messages.ts';
import type { OfficialOptions } from '../sizes.ts';
import { median, percentile, ratio } from '../report/statistics.ts';

export interface OfficialResult {
  readonly samples: number;
  readonly gatewayMedianMs: number;
  readonly gatewayP99Ms: number;
  readonly directMedianMs: number;
  readonly directP99Ms: number;
  readonly toDirect: number | null;
}

const ADA = { name: 'Ada Lovelace', check: true };

export async function measureOfficial(
  folder: string,
  { warmUp, samples }: OfficialOptions,
  done: (share: number) => void,
): Promise<OfficialResult> {
  const server = await startEverything('streamableHttp');
  const upstreamUrl = `${server.origin}/mcp`;
  try {
    const gateway = await startGateway({ upstreamUrl, folder });
    try {
      const modern = await connect(`${gateway.origin}/mcp`, true);
      const legacy = await connect(upstreamUrl, false);
      const times = { modern: [] as number[], legacy: [] as number[] };
      for (let round = 0; round < warmUp + samples; round += 1) {
        times.modern.push(await ask(modern));
        times.legacy.push(await ask(legacy));
        done((round + 1) / (warmUp + samples));
      }
      await Promise.all([modern.close(), legacy.close()]);
      return summary(times.modern.slice(warmUp), times.legacy.slice(warmUp));
    } finally {
      await gateway.child.stop();
    }
  } finally {
    await server.stop();
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

function summary(modern: readonly number[], legacy: readonly number[]): OfficialResult {
  const [gatewayMedianMs, directMedianMs] = [median(modern), median(legacy)];
  return {
    samples: modern.length,
    gatewayMedianMs,
    gatewayP99Ms: percentile(modern, 0.99),
    directMedianMs,
    directP99Ms: percentile(legacy, 0.99),
    toDirect: ratio(gatewayMedianMs, directMedianMs),
  };
}
