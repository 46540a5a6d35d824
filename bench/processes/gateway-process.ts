/** The gateway as its users start it, with limits that the benchmark does not meet. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { request } from 'undici';
import { freePort } from '../../test/fixtures/processes.ts';
import { PRINCIPAL_HEADER } from '../clients/messages.ts';
import { Child } from './child.ts';
import { configurationFor, schemaOf, type Setting } from './gateway-config.ts';
import { answers, takesConnections } from './listening.ts';

export const CHECKOUT = new URL('../..', import.meta.url);
export const PROGRAM = 'bin/mrtr-gateway.js';
const MANY = 1_000_000;

/** One key for all replicas of the benchmark. */
const SEAL = {
  audience: 'bench',
  keys: [{ kid: 'bench', key: Buffer.alloc(32, 7).toString('base64url') }],
};

/** Starts the program with its arguments. */
export type Launch = (program: URL, args: readonly string[]) => Child;

export interface GatewayOptions {
  /** The URL of the legacy server's endpoint, which is called at `/mcp`. */
  readonly upstreamUrl?: string;
  /** In place of the URL: the program of a server over stdio, and its arguments. */
  readonly command?: readonly [string, ...string[]];
  /** Further ones, which are called at the paths of `pathOfRoute`. */
  readonly moreUpstreamUrls?: readonly string[];
  /** Where its configuration is written. */
  readonly folder: string;
  /** Parked calls are let go at once. */
  readonly releases?: boolean;
  /** Which calls become tasks; none without it. */
  readonly promotes?: 'interactive' | 'always';
  /** Takes retries from other replicas, and brings them theirs. */
  readonly relays?: boolean;
  /** Where homes are found by all replicas. */
  readonly redis?: URL;
  /** The folder of another version of the gateway to run, with its dependencies; ends with a slash. */
  readonly checkout?: URL;
  /** What runs it. Without it the benchmark can collect its garbage; `asUsers` runs it as it is. */
  readonly launch?: Launch;
  readonly transport?: 'streamable-http' | 'http-sse' | 'auto';
  readonly workers?: number;
  readonly concurrency?: 'auto' | 'separate';
  /** Without it more than the benchmark parks. */
  readonly maxParkedCalls?: number;
  /** How long a call can be parked, such as `24h`; without it as long as the benchmark needs. */
  readonly parkedFor?: string;
  /** Without it `info`, as in production. */
  readonly logLevel?: 'info' | 'warn';
  /** The server may be down, so that it is not waited for. */
  readonly withoutServer?: boolean;
}

export interface GatewayProcess {
  readonly child: Child;
  readonly origin: string;
  readonly adminOrigin: string;
  /** Keys of the configuration that this version does not have, and that were left out. */
  readonly leftOut: readonly string[];
  /** How many retries were served by this recovery so far, as the gateway's own metrics tell. */
  resumes(recoveredBy: string): Promise<number>;
}

/** The public path of a route, the first of which has the number 0. */
export function pathOfRoute(index: number): string {
  return index === 0 ? '/mcp' : `/mcp-${index + 1}`;
}

/** Runs it without what lets the benchmark collect its garbage. */
export const asUsers: Launch = (program, args) =>
  Child.program('the gateway', process.execPath, [fileURLToPath(program), ...args]);

const withProbe: Launch = (program, args) => Child.node('the gateway', program, args);

/** Starts a gateway in front of the upstream; resolves when it is ready, or without a server when it listens. */
export async function startGateway(options: GatewayOptions): Promise<GatewayProcess> {
  const { folder, checkout = CHECKOUT, launch = withProbe, withoutServer = false } = options;
  const [port, adminPort] = [await freePort(), await freePort()];
  const file = join(folder, `gateway-${port}.json`);
  const wanted = settings(options, port, adminPort);
  const { config, leftOut } = configurationFor(schemaOf(checkout), wanted);
  await writeFile(file, JSON.stringify(config));
  const child = launch(new URL(PROGRAM, checkout), ['--config', file]);
  if (withoutServer) {
    await takesConnections(port, child);
    return running(child, port, adminPort, leftOut);
  }
  return ready(child, port, adminPort, leftOut);
}

/** Starts a gateway as a newcomer does: with the URL of the server, and a port that is free. */
export async function startDropIn(upstreamUrl: string): Promise<GatewayProcess> {
  const [port, adminPort] = [await freePort(), await freePort()];
  const listen = ['--listen', `127.0.0.1:${port}`, '--admin', `127.0.0.1:${adminPort}`];
  const child = withProbe(new URL(PROGRAM, CHECKOUT), ['--upstream', upstreamUrl, ...listen]);
  return ready(child, port, adminPort, []);
}

async function ready(
  child: Child,
  port: number,
  adminPort: number,
  leftOut: readonly string[],
): Promise<GatewayProcess> {
  await answers(`http://127.0.0.1:${adminPort}/readyz`, child);
  return running(child, port, adminPort, leftOut);
}

function running(
  child: Child,
  port: number,
  adminPort: number,
  leftOut: readonly string[],
): GatewayProcess {
  const adminOrigin = `http://127.0.0.1:${adminPort}`;
  const resumes = async (recoveredBy: string) => {
    const { body } = await request(`${adminOrigin}/metrics`);
    const lines = (await body.text()).split('\n');
    const found = lines.filter(
      (one) =>
        one.startsWith('mrtr_gateway_resumes_total{') &&
        one.includes(`recovered_by="${recoveredBy}"`),
    );
    return found.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
  };
  return { child, origin: `http://127.0.0.1:${port}`, adminOrigin, leftOut, resumes };
}

function overHttp(index: number, url: string, { transport }: GatewayOptions): Setting[] {
  return [
    { keys: [`routes.${index}.upstream.url`], value: url },
    { keys: [`routes.${index}.upstream.transport`], value: transport ?? 'streamable-http' },
  ];
}

function overStdio(index: number, [command, ...args]: readonly string[] = []): Setting[] {
  return [
    { keys: [`routes.${index}.upstream.command`], value: command },
    { keys: [`routes.${index}.upstream.args`], value: args },
  ];
}

function settings(options: GatewayOptions, port: number, adminPort: number): Setting[] {
  const { upstreamUrl, moreUpstreamUrls = [], releases = false, relays = false } = options;
  const routes = [upstreamUrl, ...moreUpstreamUrls].flatMap((url, index): Setting[] => [
    { keys: [`routes.${index}.path`], value: pathOfRoute(index) },
    ...(url === undefined ? overStdio(index, options.command) : overHttp(index, url, options)),
    { keys: [`routes.${index}.sessions.scope`], value: 'principal' },
    { keys: [`routes.${index}.sessions.maxIdle`], value: 64 },
    ...(options.concurrency === undefined
      ? []
      : [{ keys: [`routes.${index}.sessions.concurrency`], value: options.concurrency } as const]),
    { keys: [`routes.${index}.parking.ttl`], value: options.parkedFor ?? '30m' },
    { keys: [`routes.${index}.parking.callTtl`], value: options.parkedFor ?? '1h' },
    {
      keys: [`routes.${index}.parking.release`],
      value: releases ? 'when-resumable' : 'never',
    },
  ]);
  const parked = options.maxParkedCalls ?? MANY;
  return [
    { keys: ['listen'], value: `127.0.0.1:${port}` },
    { keys: ['admin'], value: `127.0.0.1:${adminPort}` },
    ...(options.workers === undefined
      ? []
      : [{ keys: ['workers'], value: options.workers } as const]),
    ...routes,
    { keys: ['identity.source'], value: 'header' },
    { keys: ['identity.header'], value: PRINCIPAL_HEADER },
    { keys: ['limits.maxRunningCalls'], value: MANY },
    { keys: ['limits.maxParkedCalls'], value: parked },
    { keys: ['limits.maxParkedCallsPerPrincipal'], value: parked },
    { keys: ['limits.maxConnections'], value: MANY },
    ...(options.promotes === undefined
      ? []
      : [{ keys: ['routes.0.tasks.promote'], value: options.promotes } as const]),
    // The peers log nothing.
    { keys: ['log.level'], value: options.logLevel ?? 'info' },
    { keys: ['log.format'], value: 'json' },
    ...(relays || releases ? [{ keys: ['seal'], value: SEAL } as const] : []),
    ...(options.redis === undefined
      ? []
      : [{ keys: ['redis.url'], value: options.redis.href } as const]),
    ...(relays ? [{ keys: ['relay.listen'], value: '127.0.0.1:0' } as const] : []),
  ];
}
