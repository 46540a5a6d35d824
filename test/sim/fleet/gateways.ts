/** Real gateways in the simulation. */
import { startGateway, type Gateway } from '../../../src/app/gateway.ts';
import { parseConfig } from '../../../src/config/load/load.ts';
import type { Clock } from '../../../src/lib/clock.ts';
import { fewRandomBytes } from '../../../src/lib/crypto.ts';
import type { Log } from '../../../src/ops/log.ts';
import { simulation } from '../engine/simulation.ts';
// A gateway loads them when it needs them, which takes time that is not virtual.
import '../../../src/replicas/directory/redis-directory.ts';
import '../../../src/replicas/redis/client.ts';
import '../../../src/replicas/relay/redis-queue.ts';
import '../../../src/replicas/relay/redis-relay.ts';

export interface Replica {
  readonly name: string;
  readonly port: number;
  readonly gateway: Gateway;
}

export const PORTS = { upstream: 3_000, redis: 6_379 } as const;
const POOL_BYTES = 4_096;
const SETTINGS = JSON.stringify({
  listen: '127.0.0.1:0',
  admin: 'off',
  routes: [
    { id: 'mcp', path: '/mcp', upstream: { url: `http://127.0.0.1:${PORTS.upstream}/mcp` } },
  ],
  seal: {
    audience: 'simulation',
    keys: [{ kid: 'only', key: Buffer.alloc(32, 7).toString('base64url') }],
  },
  drain: { delay: '0s', timeout: '2s' },
  log: { level: 'debug', format: 'json' },
  limits: { maxMemoryPercent: 'off', maxEventLoopDelay: 'off' },
  relay: { listen: '127.0.0.1:0' },
  redis: { url: `redis://127.0.0.1:${PORTS.redis}` },
});

/** Starts a gateway as a process of its own. */
export async function startReplica(name: string): Promise<Replica> {
  const { config } = parseConfig(SETTINGS, 'simulation.json', { env: {}, readSecret: () => '' });
  const options = { log: logOf(name), clock: clockOf(name) };
  const gateway = await simulation().as(name, () => startGateway(config, options));
  return { name, port: Number(new URL(gateway.url).port), gateway };
}

/** Empties the pool of random bytes that all gateways share: what is left of it is from the simulation before. */
export function emptyPool(): void {
  fewRandomBytes(POOL_BYTES);
}

function logOf(name: string): Log {
  return {
    event(event, fields) {
      if (!simulation().isDead(name)) {
        simulation().log(`${name}: ${event} ${JSON.stringify(fields)}`);
      }
    },
    takes: () => true,
  };
}

function clockOf(name: string): Clock {
  return {
    now: () => Date.now(),
    elapsed: () => simulation().nowMs,
    setTimer(afterMs, callback) {
      let isCancelled = false;
      const fire = () => {
        if (!isCancelled) callback();
      };
      simulation().after(Math.max(0, afterMs), fire, name);
      return { cancel: () => (isCancelled = true) };
    },
  };
}
