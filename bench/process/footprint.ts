/** How long each program takes to start, and the memory of its process, idle and after a load. */
import { setTimeout as pause } from 'node:timers/promises';
import { Connection, load } from '../clients/load.ts';
import { modernCall } from '../clients/messages.ts';
import { residentBytes } from '../processes/resident.ts';
import { ratio, spreadOf, type Spread } from '../report/statistics.ts';
import type { FootprintOptions } from '../sizes.ts';
import { coldDiscovery, type ColdDiscover } from './cold-discover.ts';
import { makeForms, type Start } from './forms.ts';

/** Of one program. */
export interface Footprint {
  readonly startMs: Spread;
  readonly idleRssBytes: Spread;
  readonly loadedRssBytes: number;
}

export interface FootprintResult {
  /** See `Forms`. */
  readonly gateway: Footprint;
  readonly image: Footprint;
  readonly bare: Footprint;
  readonly earlier: Footprint | null;
  /** The gateway's to the earlier version's. */
  readonly startToEarlier: number | null;
  readonly idleToEarlier: number | null;
  readonly loadedToEarlier: number | null;
  readonly loadMs: number;
  readonly discovers: readonly ColdDiscover[];
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
  const { package: ofPackage, image, bare, earlier: before } = await makeForms(folder, earlier);
  const forms = [ofPackage, image, bare, ...(before === null ? [] : [before])];
  const samples: Sample[][] = forms.map(() => []);
  // Fills the compile cache.
  for (const form of forms) await startOnce(form, upstream);
  for (let start = 0; start < starts; start += 1) {
    for (const [index, form] of forms.entries()) {
      samples[index]?.push(await startOnce(form, upstream));
    }
  }
  const discovers = await coldDiscovery(folder, starts);
  const loaded: number[] = [];
  for (const form of forms) {
    done((1 + loaded.length) / (1 + forms.length));
    loaded.push(await rssAfterLoad(form, upstream, loadMs));
  }
  const [gateway, ofImage, ofBare, ofEarlier] = forms.map((_form, index) =>
    footprint(samples[index] ?? [], loaded[index] ?? NaN),
  );
  if (gateway === undefined || ofImage === undefined || ofBare === undefined) {
    throw new Error('nothing was measured');
  }
  const to = (of: (one: Footprint) => number) =>
    ofEarlier === undefined ? null : ratio(of(gateway), of(ofEarlier));
  return {
    gateway,
    image: ofImage,
    bare: ofBare,
    earlier: ofEarlier ?? null,
    startToEarlier: to(({ startMs }) => startMs.median),
    idleToEarlier: to(({ idleRssBytes }) => idleRssBytes.median),
    loadedToEarlier: to(({ loadedRssBytes }) => loadedRssBytes),
    loadMs,
    discovers,
  };
}

async function startOnce(start: Start, upstream: string): Promise<Sample> {
  const startedAt = performance.now();
  const { child } = await start(upstream);
  const startMs = performance.now() - startedAt;
  await pause(SETTLE_MS);
  const idleRssBytes = residentBytes(child.pid);
  // Not killed: what the next start can use is written at a clean end.
  await child.terminate();
  return { startMs, idleRssBytes };
}

async function rssAfterLoad(start: Start, upstream: string, loadMs: number): Promise<number> {
  const { child, origin } = await start(upstream);
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
