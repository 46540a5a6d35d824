/** How long each program takes to start, and the memory of its process, idle and after a load. */
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { bundle, bundleOwn, copyCommand } from '../../scripts/bundle.ts';
import { Child } from '../processes/child.ts';
import {
  asUsers,
  CHECKOUT,
  PROGRAM,
  startGateway,
  type GatewayOptions,
  type Launch,
} from '../processes/gateway-process.ts';
import { imageRun } from '../processes/image.ts';
import { residentBytes } from '../processes/resident.ts';
import { Connection, load } from '../clients/load.ts';
import { modernCall } from '../clients/messages.ts';
import type { FootprintOptions } from '../sizes.ts';
import { ratio, spreadOf, type Spread } from '../report/statistics.ts';

/** Of one version of the gateway. */
export interface Footprint {
  readonly startMs: Spread;
  readonly idleRssBytes: Spread;
  readonly loadedRssBytes: number;
}

export interface FootprintResult {
  /** As the package has it. */
  readonly gateway: Footprint;
  /** As the image has it: with its libraries in the bundle. */
  readonly image: Footprint;
  readonly earlier: Footprint | null;
  /** The gateway's to the earlier version's. */
  readonly startToEarlier: number | null;
  readonly idleToEarlier: number | null;
  readonly loadedToEarlier: number | null;
  readonly loadMs: number;
}

interface Sample {
  readonly startMs: number;
  readonly idleRssBytes: number;
}

const CONNECTIONS = 32;
/** How long a process settles before its memory counts, in ms. */
const SETTLE_MS = 1_000;

export async function measureFootprint(
  upstream: string,
  folder: string,
  earlier: URL | null,
  { starts, loadMs }: FootprintOptions,
  done: (share: number) => void,
): Promise<FootprintResult> {
  const upstreamUrl = `${upstream}/mcp`;
  const versions: Pick<GatewayOptions, 'checkout' | 'launch'>[] = [
    { launch: await packaged() },
    { launch: await asImage() },
  ];
  if (earlier !== null) versions.push({ checkout: earlier, launch: asUsers });
  const samples: Sample[][] = versions.map(() => []);
  for (let start = 0; start < starts; start += 1) {
    for (const [index, version] of versions.entries()) {
      samples[index]?.push(await startOnce({ upstreamUrl, folder, ...version }));
    }
  }
  const loaded: number[] = [];
  for (const version of versions) {
    done((1 + loaded.length) / (1 + versions.length));
    loaded.push(await rssAfterLoad({ upstreamUrl, folder, ...version }, loadMs));
  }
  const [gateway, image, before] = versions.map((_version, index) =>
    footprint(samples[index] ?? [], loaded[index] ?? NaN),
  );
  if (gateway === undefined || image === undefined) throw new Error('nothing was measured');
  const to = (of: (one: Footprint) => number) =>
    before === undefined ? null : ratio(of(gateway), of(before));
  return {
    gateway,
    image,
    earlier: before ?? null,
    startToEarlier: to(({ startMs }) => startMs.median),
    idleToEarlier: to(({ idleRssBytes }) => idleRssBytes.median),
    loadedToEarlier: to(({ loadedRssBytes }) => loadedRssBytes),
    loadMs,
  };
}

/** Makes the program of the package, where it finds the libraries of this checkout. */
async function packaged(): Promise<Launch> {
  const folder = new URL('results/package/', CHECKOUT);
  await bundleOwn(fileURLToPath(folder));
  await copyCommand(fileURLToPath(folder));
  return (_program, args) => asUsers(new URL(PROGRAM, folder), args);
}

/** Makes the program of the image. */
async function asImage(): Promise<Launch> {
  const folder = new URL('results/image/', CHECKOUT);
  await bundle(fileURLToPath(folder));
  const { flags, env } = imageRun();
  const program = fileURLToPath(new URL(PROGRAM, folder));
  return (_program, args) =>
    Child.program('the gateway', process.execPath, [...flags, program, ...args], env);
}

async function startOnce(version: GatewayOptions): Promise<Sample> {
  const startedAt = performance.now();
  const { child } = await startGateway(version);
  const startMs = performance.now() - startedAt;
  await pause(SETTLE_MS);
  const idleRssBytes = residentBytes(child.pid);
  // Not killed: what the next start can use is written at a clean end.
  await child.terminate();
  return { startMs, idleRssBytes };
}

async function rssAfterLoad(version: GatewayOptions, loadMs: number): Promise<number> {
  const { child, origin } = await startGateway(version);
  const connections = Array.from(
    { length: CONNECTIONS },
    () => new Connection(origin, '/mcp', (id) => modernCall('echo', id)),
  );
  try {
    await load(connections, loadMs);
    await pause(SETTLE_MS);
    return residentBytes(child.pid);
  } finally {
    await Promise.all(connections.map((one) => one.close()));
    await child.stop();
  }
}

function footprint(samples: readonly Sample[], loadedRssBytes: number): Footprint {
  return {
    startMs: spreadOf(samples.map(({ startMs }) => startMs)),
    idleRssBytes: spreadOf(samples.map(({ idleRssBytes }) => idleRssBytes)),
    loadedRssBytes,
  };
}
