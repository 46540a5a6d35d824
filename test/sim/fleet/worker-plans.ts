/** Histories whose gateways have workers. */
import { below, choose } from '../engine/random.ts';
import { workerFaultOf } from './faults.ts';
import type { History } from './history.ts';

/** Of so many histories, one has workers. */
const ONE_IN = 8;
const MOST_FAULTS = 2;
const LATEST_NTH = 6;

/** @returns the history with several processes for each gateway, if its seed says so */
export function withWorkers(history: History): History {
  const name = `workers:${history.seed}`;
  if (below(name, ONE_IN) > 0) return history;
  const replicas = choose(`${name}:replicas`, [1, 1, 2]);
  const hasStore = replicas > 1 || choose(`${name}:store`, [true, false]);
  const faults = history.faults.filter(({ kind }) => hasStore || !kind.startsWith('store-'));
  const first = 1 + Math.max(-1, ...faults.map(({ id }) => id));
  const more = Array.from({ length: below(`${name}:faults`, MOST_FAULTS + 1) }, (_, nth) =>
    workerFaultOf(`${name}:${nth}`, first + nth, LATEST_NTH),
  );
  return {
    ...history,
    replicas,
    hasStore,
    workers: choose(`${name}:count`, [2, 3]),
    // What is counted by all is known to each a moment later, so a limit can be exceeded.
    gateway: { ...history.gateway, maxParked: null, maxSessions: null },
    faults: [...faults, ...more],
  };
}
