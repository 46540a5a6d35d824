/**
 * The memory of a parked call in the gateway's process, beside the memory of the bare stream that it
 * cannot do without, in a process that does nothing but hold such streams.
 */
import { Child } from './child.ts';
import { startGateway } from './gateway-process.ts';
import { openLegacySession } from './legacy-session.ts';
import { Connection } from './load.ts';
import type { Memory } from './memory-probe.ts';
import { modernCall } from './messages.ts';
import type { ParkedOptions } from './options.ts';
import { askGateway, retryGateway } from './gateway-question.ts';
import { spreadOf, type Spread } from './statistics.ts';

export interface ParkedResult {
  readonly count: number;
  readonly gateway: BytesEach;
  readonly bareStream: BytesEach;
  /** A parked call to one bare stream, in the same repetition. */
  readonly rssRatio: Spread;
  readonly heapRatio: Spread;
}

/** Bytes for one parked call, or one stream. */
export interface BytesEach {
  readonly rssBytes: Spread;
  readonly heapUsedBytes: Spread;
}

const BARE_STREAMS = new URL('./bare-streams-process.ts', import.meta.url);
const CLIENT_CONNECTIONS = 8;
/** Enough for code to be compiled and pools to be filled, too little to leave much memory behind. */
const WARM_UP = 50;

export async function measureParked(
  upstream: string,
  folder: string,
  { count, repetitions }: ParkedOptions,
): Promise<ParkedResult> {
  const gateway: Memory[] = [];
  const bare: Memory[] = [];
  // Fresh processes each time: what a process has once had, it does not give back.
  for (let repetition = 0; repetition < repetitions; repetition += 1) {
    bare.push(await bareStreams(upstream, count));
    gateway.push(await parkedCalls(upstream, folder, count));
  }
  const ratios = (member: keyof Memory) =>
    spreadOf(gateway.map((memory, index) => memory[member] / (bare[index]?.[member] ?? NaN)));
  return {
    count,
    gateway: bytesEach(gateway),
    bareStream: bytesEach(bare),
    rssRatio: ratios('rssBytes'),
    heapRatio: ratios('heapUsedBytes'),
  };
}

/** Out: what each call takes. Throws when the gateway cannot answer one of the parked calls after it. */
async function parkedCalls(upstream: string, folder: string, count: number): Promise<Memory> {
  const { child, origin } = await startGateway(upstream, folder);
  const clients = Array.from(
    { length: CLIENT_CONNECTIONS },
    () => new Connection(origin, '/mcp', (id) => modernCall('ask', id)),
  );
  try {
    await inTurns(clients, WARM_UP, askGateway);
    const before = await child.memory();
    const parked = await inTurns(clients, count, askGateway);
    const after = await child.memory();
    const last = parked.at(-1);
    if (last !== undefined) await retryGateway(origin, last);
    return each(before, after, count);
  } finally {
    await Promise.all(clients.map((client) => client.close()));
    await child.stop();
  }
}

async function bareStreams(upstream: string, count: number): Promise<Memory> {
  const url = `${upstream}/mcp`;
  const child = Child.node('the bare streams', BARE_STREAMS, [url, await openLegacySession(url)]);
  try {
    await child.heard('ready');
    await child.ask({ hold: WARM_UP }, 'held');
    const before = await child.memory();
    await child.ask({ hold: count }, 'held');
    return each(before, await child.memory(), count);
  } finally {
    await child.stop();
  }
}

/** Spreads so many pieces of work over the connections, one at a time on each. */
async function inTurns<T>(
  clients: readonly Connection[],
  count: number,
  work: (client: Connection) => Promise<T>,
): Promise<T[]> {
  const done: T[] = [];
  let begun = 0;
  const loop = async (client: Connection) => {
    while (begun < count) {
      begun += 1;
      done.push(await work(client));
    }
  };
  await Promise.all(clients.map(loop));
  return done;
}

function each(before: Memory, after: Memory, count: number): Memory {
  return {
    rssBytes: (after.rssBytes - before.rssBytes) / count,
    heapUsedBytes: (after.heapUsedBytes - before.heapUsedBytes) / count,
  };
}

function bytesEach(samples: readonly Memory[]): BytesEach {
  return {
    rssBytes: spreadOf(samples.map(({ rssBytes }) => rssBytes)),
    heapUsedBytes: spreadOf(samples.map(({ heapUsedBytes }) => heapUsedBytes)),
  };
}
