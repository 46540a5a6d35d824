/**
 * What a parked call takes of the gateway's process, held and released, beside what the bare stream
 * takes that a held call cannot do without, in a process that does nothing but hold such streams.
 */
import { Child, type Memory } from '../processes/child.ts';
import { startGateway } from '../processes/gateway-process.ts';
import { openLegacySession } from '../clients/legacy-session.ts';
import type { ParkedOptions } from '../sizes.ts';
import { answerSome, askingConnections, parkAll } from './parking.ts';
import { ratesToTwin, servingOf } from './serving.ts';
import { openSockets } from '../processes/sockets.ts';
import { spreadOf, type Spread } from '../report/statistics.ts';

export interface ParkedResult {
  /** How many were held, and how many bare streams. */
  readonly count: number;
  readonly releasedCount: number;
  readonly bareStream: Taken;
  readonly held: ParkedCalls;
  readonly released: ParkedCalls;
  /** A held call beside one bare stream of the same repetition. */
  readonly heldToBare: { readonly rss: Spread; readonly heap: Spread };
}

/** For one parked call, or one stream. */
export interface Taken {
  readonly rssBytes: Spread;
  readonly heapUsedBytes: Spread;
  /** What objects of the heap hold outside of it: buffers, mostly. */
  readonly externalBytes: Spread;
  /** `null` where they cannot be counted. */
  readonly sockets: Spread | null;
}

export interface ParkedCalls extends Taken {
  /**
   * Calls a second without questions while they are parked, to the rate before; both beside those of a
   * gateway in which none are parked, in turns.
   */
  readonly serving: Spread;
  /** Parked calls that were answered afterwards, over all repetitions; each was checked. */
  readonly answered: number;
}

type Kind = 'held' | 'released';

/** Of one process at one moment. */
export interface Held extends Memory {
  readonly sockets: number | null;
}

interface Parked {
  readonly each: Held;
  readonly serving: Spread;
  readonly answered: number;
}

const BARE_STREAMS = new URL('./bare-streams-process.ts', import.meta.url);
const CLIENT_CONNECTIONS = 64;

export async function measureParked(
  upstream: string,
  folder: string,
  options: ParkedOptions,
  done: (share: number) => void,
): Promise<ParkedResult> {
  const bare: Held[] = [];
  const parked: Record<Kind, Parked[]> = { held: [], released: [] };
  // Fresh processes each time: what a process has once had, it does not give back.
  for (let repetition = 0; repetition < options.repetitions; repetition += 1) {
    bare.push(await bareStreams(upstream, options));
    parked.held.push(await parkedCalls('held', upstream, folder, options));
    done((repetition + 0.6) / options.repetitions);
    parked.released.push(await parkedCalls('released', upstream, folder, options));
    done((repetition + 1) / options.repetitions);
  }
  const ratios = (member: keyof Memory) =>
    spreadOf(parked.held.map(({ each }, index) => each[member] / (bare[index]?.[member] ?? NaN)));
  return {
    count: options.count,
    releasedCount: options.releasedCount,
    bareStream: taken(bare),
    held: summary(parked.held),
    released: summary(parked.released),
    heldToBare: { rss: ratios('rssBytes'), heap: ratios('heapUsedBytes') },
  };
}

async function parkedCalls(
  kind: Kind,
  upstream: string,
  folder: string,
  options: ParkedOptions,
): Promise<Parked> {
  const { warmUp, serving } = options;
  const releases = kind === 'released';
  const count = releases ? options.releasedCount : options.count;
  const upstreamUrl = `${upstream}${releases ? '/kept' : '/mcp'}`;
  const gateway = await startGateway({ upstreamUrl, folder, releases });
  const twin = await startGateway({ upstreamUrl, folder, releases });
  const { child, origin, resumes } = gateway;
  const clients = askingConnections(origin, '/mcp', CLIENT_CONNECTIONS);
  const twinClients = askingConnections(twin.origin, '/mcp', CLIENT_CONNECTIONS);
  try {
    await parkAll(clients, warmUp);
    // It stands for how the gateway was before.
    await parkAll(twinClients, warmUp);
    // A collection drops compiled code, so both have one before they are loaded.
    await Promise.all([holdings(child), holdings(twin.child)]);
    const ratesBefore = await ratesToTwin([origin], twin.origin, serving);
    const before = await holdings(child);
    const calls = await parkAll(clients, count);
    const after = await holdings(child);
    await holdings(twin.child);
    const ratesWhile = await ratesToTwin([origin], twin.origin, serving);
    const answered = await answerSome(calls);
    // A call that was let go is read on from its pointer; one that was held is here.
    const served = await resumes(releases ? 'reattach' : 'here');
    if (served !== answered) throw new Error(`${served} of ${answered} ${kind} calls were ${kind}`);
    return {
      each: each(before, after, count),
      serving: servingOf(ratesBefore, ratesWhile),
      answered,
    };
  } finally {
    await Promise.all([...clients, ...twinClients].map((client) => client.close()));
    await Promise.all([child.stop(), twin.child.stop()]);
  }
}

async function bareStreams(upstream: string, { count, warmUp }: ParkedOptions): Promise<Held> {
  const url = `${upstream}/mcp`;
  const child = Child.node('the bare streams', BARE_STREAMS, [url, await openLegacySession(url)]);
  try {
    await child.heard('ready');
    await child.ask({ hold: warmUp }, 'held');
    const before = await holdings(child);
    await child.ask({ hold: count }, 'held');
    return each(before, await holdings(child), count);
  } finally {
    await child.stop();
  }
}

/** What the process holds now. */
export async function holdings(child: Child): Promise<Held> {
  return { ...(await child.memory()), sockets: openSockets(child.pid) };
}

function each(before: Held, after: Held, count: number): Held {
  return {
    rssBytes: (after.rssBytes - before.rssBytes) / count,
    heapUsedBytes: (after.heapUsedBytes - before.heapUsedBytes) / count,
    externalBytes: (after.externalBytes - before.externalBytes) / count,
    sockets:
      after.sockets === null || before.sockets === null
        ? null
        : (after.sockets - before.sockets) / count,
  };
}

function taken(samples: readonly Held[]): Taken {
  const sockets = samples.map((sample) => sample.sockets).filter((value) => value !== null);
  return {
    rssBytes: spreadOf(samples.map(({ rssBytes }) => rssBytes)),
    heapUsedBytes: spreadOf(samples.map(({ heapUsedBytes }) => heapUsedBytes)),
    externalBytes: spreadOf(samples.map(({ externalBytes }) => externalBytes)),
    sockets: sockets.length === 0 ? null : spreadOf(sockets),
  };
}

function summary(parked: readonly Parked[]): ParkedCalls {
  return {
    ...taken(parked.map((one) => one.each)),
    serving: spreadOf(parked.map(({ serving }) => serving.median)),
    answered: parked.reduce((sum, { answered }) => sum + answered, 0),
  };
}
