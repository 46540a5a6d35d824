/**
 * What the way through another replica adds to a retry, beside a bare HTTP request and reply between two
 * processes. All four kinds are timed in turns, one at a time.
 */
import { Client } from 'undici';
import { rotated } from '../calls/calls.ts';
import { Child } from '../processes/child.ts';
import { startGateway, type GatewayProcess } from '../processes/gateway-process.ts';
import {
  acceptedRetry,
  askGateway,
  retryGateway,
  type Round,
} from '../clients/gateway-question.ts';
import { Connection } from '../clients/load.ts';
import { modernCall, type HttpCall } from '../clients/messages.ts';
import type { RelayOptions } from '../sizes.ts';
import { median, percentile, ratio } from '../report/statistics.ts';

export interface RelayedResult {
  /** Of each kind. */
  readonly samples: number;
  /** A retry that lands at the replica that holds the call, and one that lands at the other. */
  readonly here: Times;
  readonly relayed: Times;
  /** A request to the first bare process, which answers, or asks the second one before it does. */
  readonly bareHere: Times;
  readonly bareThere: Times;
  /** The request and reply between the two bare processes, as the first of them sees it. */
  readonly bareExchange: Times;
  readonly addedMedianMs: number;
  readonly bareAddedMedianMs: number;
  /** The added median of the relay beside the median of the bare request and reply. */
  readonly addedToExchange: number | null;
  /** The same beside what the bare pair adds for the client, which is measured the way the relay is. */
  readonly addedToBareAdded: number | null;
}

/** In ms. */
export interface Times {
  readonly medianMs: number;
  readonly p99Ms: number;
}

const BARE_PAIR = new URL('./bare-pair-process.ts', import.meta.url);
const KINDS = ['here', 'relayed', 'bareHere', 'bareThere'] as const;
type Kind = (typeof KINDS)[number];
/** One gateway, as clients use it. */
interface Side {
  readonly requesters: readonly Connection[];
  readonly retrier: Connection;
}

/** Few enough that what is parked meanwhile is not what is measured. */
const BATCH = 25;

export async function measureRelayed(
  upstream: string,
  folder: string,
  { warmUp, samples }: RelayOptions,
): Promise<RelayedResult> {
  const upstreamUrl = `${upstream}/mcp`;
  const one = await startGateway({ upstreamUrl, folder, relays: true });
  const other = await startGateway({ upstreamUrl, folder, relays: true });
  const bareSecond = Child.node('the second bare process', BARE_PAIR, []);
  const secondUrl = `http://127.0.0.1:${await bareSecond.port()}/here`;
  const bareFirst = Child.node('the first bare process', BARE_PAIR, [secondUrl]);
  const bare = new Client(`http://127.0.0.1:${await bareFirst.port()}`);
  const call = (id: number) => modernCall('ask', id);
  // Many ask at once, as each question takes the gateway a moment; all retries go one by one.
  const sideOf = ({ origin }: GatewayProcess): Side => ({
    requesters: Array.from({ length: BATCH }, () => new Connection(origin, '/mcp', call)),
    retrier: new Connection(origin, '/mcp', call),
  });
  const sides = [sideOf(one), sideOf(other)] as const;
  const times: Record<Kind | 'exchange', number[]> = {
    here: [],
    relayed: [],
    bareHere: [],
    bareThere: [],
    exchange: [],
  };
  const take = async (kind: Kind, round: Round, owner: Side, asked: Side) => {
    const startedAt = performance.now();
    if (kind === 'here') await retryGateway(owner.retrier, round);
    else if (kind === 'relayed') await retryGateway(asked.retrier, round);
    else {
      const exchangeMs = await askBare(bare, kind === 'bareThere', acceptedRetry(round));
      if (kind === 'bareThere') times.exchange.push(exchangeMs);
    }
    times[kind].push(performance.now() - startedAt);
  };
  try {
    const all = warmUp + samples;
    // Each gateway is the owner of every other batch, so that both have done the same work before.
    const [first, second] = sides;
    let [owner, asked]: [Side, Side] = [first, second];
    for (let taken = 0; taken < all;) {
      const [forHere, forRelayed] = [
        await Promise.all(owner.requesters.map(askGateway)),
        await Promise.all(owner.requesters.map(askGateway)),
      ];
      for (const [index, round] of forHere.entries()) {
        if (taken === all) break;
        for (const kind of rotated(KINDS, taken)) {
          const one = kind === 'relayed' ? (forRelayed[index] ?? round) : round;
          await take(kind, one, owner, asked);
        }
        taken += 1;
      }
      [owner, asked] = [asked, owner];
    }
    const served = (await one.resumes('relay')) + (await other.resumes('relay'));
    if (served !== all) throw new Error(`${served} of ${all} retries were relayed`);
    return summary(times, warmUp);
  } finally {
    const connections = sides.flatMap(({ requesters, retrier }) => [...requesters, retrier]);
    await Promise.all(connections.map((connection) => connection.close()));
    await bare.destroy();
    await Promise.all([one.child, other.child, bareFirst, bareSecond].map((child) => child.stop()));
  }
}

/** Sends the bytes of a retry. @returns how long the exchange behind it took, in ms, if there was one */
async function askBare(client: Client, there: boolean, { body }: HttpCall): Promise<number> {
  const answer = await client.request({
    method: 'POST',
    path: there ? '/there' : '/here',
    headers: { 'content-type': 'application/json' },
    body,
  });
  const text = await answer.body.text();
  if (answer.statusCode !== 200 || !text.includes('pong')) throw new Error(`no reply: ${text}`);
  return Number(answer.headers['exchange-ms'] ?? NaN);
}

function summary(
  times: Readonly<Record<Kind | 'exchange', readonly number[]>>,
  warmUp: number,
): RelayedResult {
  const of = (kind: Kind | 'exchange'): Times => {
    const counted = times[kind].slice(warmUp);
    return { medianMs: median(counted), p99Ms: percentile(counted, 0.99) };
  };
  const [here, relayed, bareHere, bareThere, bareExchange] = [
    of('here'),
    of('relayed'),
    of('bareHere'),
    of('bareThere'),
    of('exchange'),
  ];
  const addedMedianMs = relayed.medianMs - here.medianMs;
  const bareAddedMedianMs = bareThere.medianMs - bareHere.medianMs;
  return {
    samples: times.relayed.length - warmUp,
    here,
    relayed,
    bareHere,
    bareThere,
    bareExchange,
    addedMedianMs,
    bareAddedMedianMs,
    addedToExchange: ratio(addedMedianMs, bareExchange.medianMs),
    addedToBareAdded: ratio(addedMedianMs, bareAddedMedianMs),
  };
}
