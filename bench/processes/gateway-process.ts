/** The gateway as its users start it, with limits that the benchmark does not meet. */
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { request } from 'undici';
import { Child } from './child.ts';
import { answers, freePort } from './listening.ts';
import { PRINCIPAL_HEADER } from '../clients/messages.ts';

const CHECKOUT = new URL('../..', import.meta.url);
const PROGRAM = 'bin/mrtr-gateway.js';
const MANY = 1_000_000;

/** One key for all replicas of the benchmark. */
const SEAL = {
  audience: 'bench',
  keys: [{ kid: 'bench', key: Buffer.alloc(32, 7).toString('base64url') }],
};

export interface GatewayOptions {
  /** The URL of the legacy server's endpoint. */
  readonly upstreamUrl: string;
  /** Where its configuration is written. */
  readonly folder: string;
  /** Parked calls are let go at once. */
  readonly releases?: boolean;
  /** Takes retries from other replicas, and brings them theirs. */
  readonly relays?: boolean;
  /** The folder of another version of the gateway to run, with its dependencies; ends with a slash. */
  readonly checkout?: URL;
  /** Runs it as users do: without what lets the benchmark collect its garbage. */
  readonly bare?: boolean;
  readonly transport?: 'streamable-http' | 'http-sse';
}

export interface GatewayProcess {
  readonly child: Child;
  readonly origin: string;
  /** How many retries were served by this rung so far, as the gateway's own metrics tell. */
  resumes(rung: string): Promise<number>;
}

/** What the program is run from: the compiled files where they are built, or else the sources. */
export function whatRuns(): 'dist' | 'src' {
  return existsSync(new URL('dist/main.js', CHECKOUT)) ? 'dist' : 'src';
}

/** Starts a gateway in front of the upstream; resolves when it is ready. */
export async function startGateway(options: GatewayOptions): Promise<GatewayProcess> {
  const [port, adminPort] = [await freePort(), await freePort()];
  const file = join(options.folder, `gateway-${port}.json`);
  await writeFile(file, JSON.stringify(configuration(options, port, adminPort)));
  const program = new URL(PROGRAM, options.checkout ?? CHECKOUT);
  const child = options.bare
    ? Child.program('the gateway', process.execPath, [
        fileURLToPath(program),
        ...['--config', file],
      ])
    : Child.node('the gateway', program, ['--config', file]);
  const admin = `http://127.0.0.1:${adminPort}`;
  await answers(`${admin}/readyz`, child);
  const resumes = async (rung: string) => {
    const { body } = await request(`${admin}/metrics`);
    const lines = (await body.text()).split('\n');
    const line = lines.find(
      (one) => one.startsWith('mrtr_gateway_resumes_total{') && one.includes(`rung="${rung}"`),
    );
    return Number(line?.split(' ').at(-1) ?? 0);
  };
  return { child, origin: `http://127.0.0.1:${port}`, resumes };
}

function configuration(options: GatewayOptions, port: number, adminPort: number): object {
  const { upstreamUrl, releases = false, relays = false, transport = 'streamable-http' } = options;
  return {
    listen: `127.0.0.1:${port}`,
    admin: `127.0.0.1:${adminPort}`,
    routes: [
      {
        path: '/mcp',
        upstream: { url: upstreamUrl, transport },
        sessions: { scope: 'principal', maxIdle: 64 },
        parking: { ttl: '30m', release: releases ? 'when-resumable' : 'never' },
      },
    ],
    identity: { source: 'header', header: PRINCIPAL_HEADER },
    limits: {
      maxRunningCalls: MANY,
      maxParkedCalls: MANY,
      maxParkedCallsPerPrincipal: MANY,
      maxConnections: MANY,
    },
    // As in production; the peers log nothing.
    log: { level: 'info', format: 'json' },
    ...(relays || releases ? { seal: SEAL } : {}),
    ...(relays ? { relay: { listen: '127.0.0.1:0' } } : {}),
  };
}
