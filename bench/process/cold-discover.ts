/** The first `server/discover` on a route that no client has used: clients that wait too long for it fall back to the legacy revision. */
import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import { request } from 'undici';
import { freePort } from '../../test/fixtures/processes.ts';
import { discoverRequest } from '../clients/messages.ts';
import { Child } from '../processes/child.ts';
import { startGateway, type GatewayOptions } from '../processes/gateway-process.ts';
import { UPSTREAM } from '../processes/upstreams.ts';
import { spreadOf, type Spread } from '../report/statistics.ts';

export interface ColdDiscover {
  /** What the server is like. */
  readonly server: string;
  /** From the request to the end of the response, in ms; one for each start of the gateway. */
  readonly tookMs: Spread;
  readonly slowestMs: number;
}

const HOST = '127.0.0.1';
const STDIO_SERVER = fileURLToPath(new URL('../stdio/server-process.ts', import.meta.url));

/** Starts a gateway, and a server if there is one. @returns how long the first discovery took, in ms */
type Discovery = (folder: string) => Promise<number>;

const DISCOVERIES: Readonly<Record<string, Discovery>> = {
  'over HTTP, at once after `/readyz`': async (folder) => {
    const server = Child.node('the upstream', UPSTREAM, []);
    try {
      return await discover({ folder, upstreamUrl: urlAt(await server.port()) });
    } finally {
      await server.stop();
    }
  },
  'over HTTP, started after the gateway': async (folder) => {
    const port = await freePort();
    const started: Child[] = [];
    const options = { folder, upstreamUrl: urlAt(port), withoutServer: true };
    try {
      return await discover(options, async () => {
        const server = Child.node('the upstream', UPSTREAM, [HOST, String(port)]);
        started.push(server);
        await server.port();
      });
    } finally {
      await Promise.all(started.map((server) => server.stop()));
    }
  },
  'over HTTP, takes connections and does not reply': async (folder) => {
    const sockets = new Set<Socket>();
    const server = createServer((socket) => void sockets.add(socket.on('error', () => {})));
    await once(server.listen(0, HOST), 'listening');
    try {
      const upstreamUrl = urlAt((server.address() as AddressInfo).port);
      return await discover({ folder, upstreamUrl, withoutServer: true });
    } finally {
      for (const socket of sockets) socket.destroy();
      server.close();
    }
  },
  'over stdio, at once after `/readyz`': (folder) =>
    discover({ folder, command: [process.execPath, '--no-warnings', STDIO_SERVER] }),
};

/** Measures each kind of server with so many gateways. @throws Error if a response is not a result in JSON */
export async function coldDiscovery(folder: string, starts: number): Promise<ColdDiscover[]> {
  const found: ColdDiscover[] = [];
  for (const [server, measure] of Object.entries(DISCOVERIES)) {
    const times: number[] = [];
    for (let start = 0; start < starts; start += 1) times.push(await measure(folder));
    found.push({ server, tookMs: spreadOf(times), slowestMs: Math.max(...times) });
  }
  return found;
}

async function discover(
  options: GatewayOptions,
  before: () => Promise<void> = async () => {},
): Promise<number> {
  const { child, origin } = await startGateway({ ...options, transport: 'auto' });
  try {
    await before();
    const startedAt = performance.now();
    const { statusCode, headers, body } = await request(`${origin}/mcp`, {
      method: 'POST',
      ...discoverRequest(),
    });
    const text = await body.text();
    const tookMs = performance.now() - startedAt;
    const isJson = headers['content-type']?.includes('application/json') === true;
    if (statusCode !== 200 || !isJson || !text.includes('"capabilities":')) {
      throw new Error(`not a result in JSON: HTTP ${statusCode} ${text.slice(0, 200)}`);
    }
    return tookMs;
  } finally {
    await child.stop();
  }
}

function urlAt(port: number): string {
  return `http://${HOST}:${port}/mcp`;
}
