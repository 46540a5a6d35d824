/** As many parked calls at once as an operator may want: held in one process, held in three, and released. */
import { setTimeout as pause } from 'node:timers/promises';
import type { Connection } from '../clients/load.ts';
import { askForOpenFiles } from '../machine/open-files.ts';
import { describeRoom, filesFor, fit, readRoom, type Room } from '../machine/room.ts';
import type { ManyOptions } from '../sizes.ts';
import { pathOfRoute, startGateway, type GatewayProcess } from '../processes/gateway-process.ts';
import { startUpstreams, type Upstreams } from '../processes/upstreams.ts';
import type { Spread } from '../report/statistics.ts';
import { holdings, type Held } from './parked.ts';
import { answerSome, askingConnections, park, parkAll, whyOf, type ParkedCall } from './parking.ts';
import { ratesToTwin, servingOf } from './serving.ts';

export interface ManyResult {
  /** The limits of this machine, in a sentence each. */
  readonly limits: readonly string[];
  readonly runs: readonly ManyRun[];
}

export interface ManyRun {
  readonly kind: 'held' | 'released';
  readonly gateways: number;
  readonly wanted: number;
  /** How many were to be parked after the limits of the machine were heeded, and what those are. */
  readonly tried: number;
  readonly loweredBy: readonly string[];
  readonly parked: number;
  /** Why fewer were parked than were tried, or why nothing could be measured afterwards. */
  readonly failure: string | null;
  readonly parkMs: number;
  /** `null` if it could not be measured. */
  readonly found: Found | null;
}

/** While the calls are parked, and of their answers. */
export interface Found {
  /** Over all gateways. */
  readonly rssBytesEach: number;
  readonly heapUsedBytesEach: number;
  readonly socketsEach: number | null;
  readonly serving: Spread;
  readonly answered: number;
  /** How many of these came over another replica than the one that holds the call. */
  readonly relayed: number;
}

interface Kind {
  readonly kind: ManyRun['kind'];
  readonly gateways: number;
  readonly wanted: number;
}

const UPSTREAMS = 3;
/**
 * After the long garbage collection the pings are sent that became due meanwhile, over as many connections, which undici
 * keeps for a few seconds.
 */
const SETTLE_MS = 10_000;
/** To each route of each gateway. */
const CONNECTIONS = 22;

export async function measureMany(
  folder: string,
  options: ManyOptions,
  done: (share: number) => void,
): Promise<ManyResult> {
  const kinds: readonly Kind[] = [
    { kind: 'held', gateways: 1, wanted: options.held },
    { kind: 'held', gateways: 3, wanted: options.heldOverThree },
    { kind: 'released', gateways: 1, wanted: options.released },
  ];
  const perProcess = kinds
    .filter(({ kind }) => kind === 'held')
    .map(({ wanted, gateways }) => wanted / Math.min(gateways, UPSTREAMS));
  const room = readRoom(askForOpenFiles(filesFor(Math.ceil(Math.max(...perProcess)))));
  const all = kinds.reduce((sum, { wanted }) => sum + wanted, 0);
  const runs: ManyRun[] = [];
  let before = 0;
  for (const kind of kinds) {
    const onParked = (parked: number) => done((before + parked) / all);
    runs.push(await manyCalls(kind, room, folder, options, onParked));
    before += kind.wanted;
  }
  return { limits: describeRoom(room), runs };
}

async function manyCalls(
  { kind, gateways: count, wanted }: Kind,
  room: Room,
  folder: string,
  { warmUp, serving, parkMs: mostMs }: ManyOptions,
  onParked: (parked: number) => void,
): Promise<ManyRun> {
  const releases = kind === 'released';
  const plan = { calls: wanted, gateways: count, upstreams: UPSTREAMS, isReleased: releases };
  const { calls: tried, why: loweredBy } = fit(plan, room);
  const upstreams = await startUpstreams(UPSTREAMS);
  const start = () => startOne(upstreams, folder, releases, count > 1);
  const gateways: GatewayProcess[] = [];
  for (let index = 0; index < count; index += 1) gateways.push(await start());
  const twin = await start();
  const asking = gateways.map(({ origin }) => connectionsTo(origin));
  const origins = gateways.map(({ origin }) => origin);
  const clients = asking.flat();
  const twinClients = connectionsTo(twin.origin);
  try {
    await parkAll(clients, Math.min(warmUp, tried));
    // It stands for how the gateways were before.
    await parkAll(twinClients, Math.ceil(Math.min(warmUp, tried) / count));
    // A collection drops compiled code, so all have one before they are loaded.
    await holdingsOf([...gateways, twin]);
    const ratesBefore = await ratesToTwin(origins, twin.origin, serving);
    const before = await holdingsOf(gateways);
    const startedAt = performance.now();
    // Those of the warm-up are parked as well.
    const more = Math.max(0, tried - warmUp);
    const { calls, failure } = await park(clients, more, { until: startedAt + mostMs, onParked });
    const parkMs = performance.now() - startedAt;
    const parked = calls.length + Math.min(warmUp, tried);
    const run = { kind, gateways: count, wanted, tried, loweredBy, parked, parkMs };
    try {
      const after = await holdingsOf(gateways);
      await holdings(twin.child);
      await pause(SETTLE_MS);
      const ratesWhile = await ratesToTwin(origins, twin.origin, serving);
      const each = (of: (held: Held) => number) => (of(after) - of(before)) / calls.length;
      const found = {
        rssBytesEach: each(({ rssBytes }) => rssBytes),
        heapUsedBytesEach: each(({ heapUsedBytes }) => heapUsedBytes),
        socketsEach: after.sockets === null ? null : each(({ sockets }) => sockets ?? NaN),
        serving: servingOf(ratesBefore, ratesWhile),
        ...(await answer(calls, asking, gateways)),
      };
      return { ...run, failure, found };
    } catch (error) {
      return { ...run, failure: failure ?? whyOf(error), found: null };
    }
  } finally {
    await Promise.all([...clients, ...twinClients].map((one) => one.close()));
    await Promise.all([...gateways, twin].map(({ child }) => child.stop()));
    await upstreams.stop();
  }
}

function startOne(
  { origins: [first, ...others] }: Upstreams,
  folder: string,
  releases: boolean,
  relays: boolean,
): Promise<GatewayProcess> {
  const urlOf = (origin: string) => `${origin}${releases ? '/kept' : '/mcp'}`;
  const [upstreamUrl, moreUpstreamUrls] = [urlOf(first), others.map(urlOf)];
  return startGateway({ upstreamUrl, moreUpstreamUrls, folder, releases, relays });
}

/** In turn to one route after the other, so that all upstreams have as many calls. */
function connectionsTo(origin: string): Connection[] {
  const routes = Array.from({ length: UPSTREAMS }, (_, route) =>
    askingConnections(origin, pathOfRoute(route), CONNECTIONS),
  );
  return Array.from({ length: CONNECTIONS }, (_, index) =>
    routes.flatMap((connections) => connections.slice(index, index + 1)),
  ).flat();
}

/** With several replicas every second retry goes to one that does not hold the call. */
async function answer(
  calls: readonly ParkedCall[],
  asking: readonly (readonly Connection[])[],
  gateways: readonly GatewayProcess[],
): Promise<{ answered: number; relayed: number }> {
  const answered = await answerSome(calls, ({ connection }, index) => {
    const owner = asking.findIndex((connections) => connections.includes(connection));
    const place = asking[owner]?.indexOf(connection) ?? -1;
    const other = asking[(owner + (index % 2)) % asking.length];
    return other?.[place] ?? connection;
  });
  const relays = await Promise.all(gateways.map(({ resumes }) => resumes('relay')));
  return { answered, relayed: relays.reduce((sum, relayed) => sum + relayed, 0) };
}

/** Of all these processes together. */
async function holdingsOf(gateways: readonly GatewayProcess[]): Promise<Held> {
  const all = await Promise.all(gateways.map(({ child }) => holdings(child)));
  const sum = (of: (held: Held) => number) => all.reduce((total, held) => total + of(held), 0);
  return {
    rssBytes: sum(({ rssBytes }) => rssBytes),
    heapUsedBytes: sum(({ heapUsedBytes }) => heapUsedBytes),
    externalBytes: sum(({ externalBytes }) => externalBytes),
    sockets: all.some(({ sockets }) => sockets === null)
      ? null
      : sum(({ sockets }) => sockets ?? NaN),
  };
}
