/**
 * What a parked call takes of the gateway's process, held and released, beside what the bare stream
 * takes that a held call cannot do without, in a process that does nothing but hold such streams.
 */
import { Child } from '../processes/child.ts';
import { askGateway, retryGateway, type Round } from '../clients/gateway-question.ts';
import { startGateway } from '../processes/gateway-process.ts';
import { openLegacySession } from '../clients/legacy-session.ts';
import { Connection, load } from '../clients/load.ts';
import type { Memory } from '../processes/memory-probe.ts';
import { modernCall } from '../clients/messages.ts';
import type { ParkedOptions } from '../options.ts';
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
  /** Calls a second without questions while they are parked, as a ratio to the rate before. */
  readonly serving: Spread;
  /** Parked calls that were answered afterwards, over all repetitions; each was checked. */
  readonly answered: number;
}

type Kind = 'held' | 'released';

/** Of one process at one moment. */
interface Held extends Memory {
  readonly sockets: number | null;
}

interface Parked {
  readonly each: Held;
  readonly serving: number;
  readonly answered: number;
}

const BARE_STREAMS = new URL('./bare-streams-process.ts', import.meta.url);
const CLIENT_CONNECTIONS = 64;
const MOST_ANSWERED = 100;

export async function measureParked(
  upstream: string,
  folder: string,
  options: ParkedOptions,
): Promise<ParkedResult> {
  const bare: Held[] = [];
  const parked: Record<Kind, Parked[]> = { held: [], released: [] };
  // Fresh processes each time: what a process has once had, it does not give back.
  for (let repetition = 0; repetition < options.repetitions; repetition += 1) {
    bare.push(await bareStreams(upstream, options));
    parked.held.push(await parkedCalls('held', upstream, folder, options));
    parked.released.push(await parkedCalls('released', upstream, folder, options));
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
  const { warmUp, serveMs } = options;
  const releases = kind === 'released';
  const count = releases ? options.releasedCount : options.count;
  const upstreamUrl = `${upstream}${releases ? '/kept' : '/mcp'}`;
  const { child, origin, resumes } = await startGateway({ upstreamUrl, folder, releases });
  const clients = Array.from(
    { length: CLIENT_CONNECTIONS },
    () => new Connection(origin, '/mcp', (id) => modernCall('ask', id)),
  );
  const plain = new Connection(origin, '/mcp', (id) => modernCall('echo', id));
  try {
    await inTurns(clients, warmUp, (client) => askGateway(client));
    const before = await holdings(child);
    const rateBefore = await servingRate(plain, serveMs);
    const rounds = await inTurns(clients, count, (client) => askGateway(client));
    const after = await holdings(child);
    const rateWhile = await servingRate(plain, serveMs);
    const answered = await answerSome(clients, rounds);
    // A call that was let go is read on from its pointer; one that was held is here.
    const served = await resumes(releases ? 'reattach' : 'here');
    if (served !== answered) throw new Error(`${served} of ${answered} ${kind} calls were ${kind}`);
    return { each: each(before, after, count), serving: rateWhile / rateBefore, answered };
  } finally {
    await Promise.all([...clients, plain].map((client) => client.close()));
    await child.stop();
  }
}

/** Calls a second; the collector drops compiled code as well, so some calls go before. */
async function servingRate(connection: Connection, serveMs: number): Promise<number> {
  await load([connection], serveMs);
  return (await load([connection], serveMs)).callsPerSecond;
}

/** The parked calls are really there: some of them are answered, and come to their own results. */
async function answerSome(
  clients: readonly Connection[],
  rounds: readonly Round[],
): Promise<number> {
  const step = Math.ceil(rounds.length / MOST_ANSWERED);
  const chosen = rounds.filter((_round, index) => index % step === 0);
  const queue = [...chosen];
  await inTurns(clients, chosen.length, async (client) => {
    const round = queue.pop();
    if (round !== undefined) await retryGateway(client, round);
  });
  return chosen.length;
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

async function holdings(child: Child): Promise<Held> {
  return { ...(await child.memory()), sockets: openSockets(child.pid) };
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
    serving: spreadOf(parked.map(({ serving }) => serving)),
    answered: parked.reduce((sum, { answered }) => sum + answered, 0),
  };
}
