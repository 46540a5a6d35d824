/** What the project wants to reach, beside what this run found. It judges nothing: the machine matters. */
import type { PathResult } from '../calls/calls.ts';
import type { Report } from './report.ts';

export interface Goal {
  readonly what: string;
  readonly against: string;
  readonly goal: string;
  readonly measured: string;
}

export function goalsOf(report: Report): Goal[] {
  return [
    ...callGoals(report),
    questionGoal(report),
    ...processGoals(report),
    ...parkedGoals(report),
    relayGoal(report),
    sealGoal(report),
  ];
}

function callGoals({ calls }: Report): Goal[] {
  const gateway = (connections: number) =>
    calls.find((one) => one.path === 'gateway' && one.connections === connections);
  return [
    {
      what: 'calls/s, bridged tools/call, 32 connections',
      against: '@fastify/http-proxy',
      goal: 'at least 1.0 x, aim at 1.3',
      measured: times(gateway(32)?.callsPerSecondToBlind.median ?? null, 2),
    },
    {
      what: 'processor time of a call, the same',
      against: '@fastify/http-proxy',
      goal: 'at most 1.0 x',
      measured: times(gateway(32)?.cpuToBlind ?? null, 2),
    },
    {
      what: 'added median latency, 1 connection',
      against: "nginx's own",
      goal: 'at most 4.5 x, aim at 3',
      measured: nginxTimes(gateway(1)),
    },
  ];
}

function nginxTimes(result: PathResult | undefined): string {
  if (result === undefined || result.addedMedianToNginx === null) return 'not measured';
  return times(result.addedMedianToNginx, 1);
}

function parkedGoals({ parked }: Report): Goal[] {
  const { released, held, heldToBare, count, releasedCount } = parked;
  const sockets = released.sockets?.median.toFixed(2) ?? '?';
  const serving = (share: number) => `${Math.round(share * 100)} % of the rate`;
  return [
    {
      what: 'memory (RSS) per held parked call',
      against: 'one bare undici stream',
      goal: 'at most 2.2 x',
      measured: times(heldToBare.rss.median, 2),
    },
    {
      what: 'memory per released parked call',
      against: '-',
      goal: '0 sockets, under 1 KiB',
      measured: `${sockets} sockets, ${kibibytes(released.rssBytes.median)} RSS, ${kibibytes(released.heapUsedBytes.median)} heap`,
    },
    {
      what: 'parked at once, held, gateway still serving',
      against: 'its rate before',
      goal: '9,000 at full rate',
      measured: `${count} at ${serving(held.serving.median)} (no more were tried)`,
    },
    {
      what: 'parked at once, released, gateway still serving',
      against: 'its rate before',
      goal: '100,000 at full rate',
      measured: `${releasedCount} at ${serving(released.serving.median)} (no more were tried)`,
    },
  ];
}

function questionGoal({ official }: Report): Goal {
  return {
    what: 'a whole question, official client, server-everything',
    against: 'direct',
    goal: 'at most 1.6 x',
    measured: times(official.toDirect, 2),
  };
}

function processGoals({ footprint }: Report): Goal[] {
  const row = (what: string, goal: string, measured: number | null) => ({
    what,
    against: 'the earlier version',
    goal,
    measured: footprint.earlier === null ? 'not measured' : times(measured, 2),
  });
  return [
    row('RSS of the process, idle', 'at most 0.6 x', footprint.idleToEarlier),
    row('RSS of the process, after the load', 'at most 0.6 x', footprint.loadedToEarlier),
    row('start to /readyz', 'at most 0.6 x', footprint.startToEarlier),
  ];
}

function sealGoal({ seal }: Report): Goal {
  return {
    what: 'seal and open a requestState',
    against: 'jose, the same size',
    goal: 'at most 0.2 x',
    measured: times(seal.toJose, 2),
  };
}

function relayGoal({ relayed }: Report): Goal {
  return {
    what: 'relayed retry, added median',
    against: 'a bare HTTP request and reply',
    goal: 'at most 1.5 x',
    measured: times(relayed.addedToExchange, 2),
  };
}

function times(value: number | null, digits: number): string {
  return value === null ? 'lost in the noise' : `${value.toFixed(digits)} x`;
}

function kibibytes(bytes: number): string {
  return `${(bytes / 1_024).toFixed(2)} KiB`;
}
