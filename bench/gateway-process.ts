/** The gateway as its users start it, with limits that the benchmark does not meet. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Child } from './child.ts';
import { answers, freePort } from './listening.ts';
import { PRINCIPAL_HEADER } from './messages.ts';

const PROGRAM = new URL('../bin/mrtr-gateway.js', import.meta.url);
const MANY = 200_000;

export interface GatewayProcess {
  readonly child: Child;
  readonly origin: string;
}

/** Starts a gateway in front of the upstream; resolves when it is ready. */
export async function startGateway(upstream: string, folder: string): Promise<GatewayProcess> {
  const [port, adminPort] = [await freePort(), await freePort()];
  const config = {
    listen: `127.0.0.1:${port}`,
    admin: `127.0.0.1:${adminPort}`,
    routes: [
      {
        path: '/mcp',
        upstream: { url: `${upstream}/mcp`, transport: 'streamable-http' },
        sessions: { scope: 'principal', maxIdle: 64 },
        parking: { ttl: '30m' },
      },
    ],
    identity: { source: 'header', header: PRINCIPAL_HEADER },
    limits: {
      maxRunningCalls: MANY,
      maxParkedCalls: MANY,
      maxParkedCallsPerPrincipal: MANY,
      maxConnections: MANY,
    },
    // The peers log nothing either.
    log: { level: 'warn', format: 'json' },
  };
  const file = join(folder, `gateway-${port}.json`);
  await writeFile(file, JSON.stringify(config));
  const child = Child.node('the gateway', PROGRAM, ['--config', file]);
  await answers(`http://127.0.0.1:${adminPort}/readyz`, child);
  return { child, origin: `http://127.0.0.1:${port}` };
}
