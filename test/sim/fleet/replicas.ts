/** Real gateways in the simulation: places where one process runs after the other. */
import { startGateway, type Gateway } from '../../../src/app/gateway.ts';
import { startWorkers } from '../../../src/workers/primary.ts';
import { parseConfig } from '../../../src/config/load/load.ts';
import type { Clock } from '../../../src/lib/clock.ts';
import { fewRandomBytes } from '../../../src/lib/crypto.ts';
import { loadJose } from '../../../src/identity/key-set.ts';
import type { Log } from '../../../src/ops/log.ts';
import { simulation } from '../engine/simulation.ts';
import { forks } from '../processes/fork-model.ts';
import { processAt } from '../network/places.ts';
import { DIALECT_PATHS } from './clients/dialects.ts';
import type { History } from './history.ts';
import { runWorker } from './workers.ts';
import { isModern, isOverStdio } from './servers/traits.ts';
import { AUDIENCE, ISSUER } from './tokens.ts';
// A gateway loads them when it needs them, which takes time that is not virtual.
import '@fastify/http-proxy';
import '../../../src/fleet/store/redis-store.ts';
import '../../../src/fleet/redis/client.ts';
import '../../../src/fleet/relay/redis-queue.ts';
import '../../../src/fleet/relay/redis-relay.ts';

await loadJose();

export const PORTS = { upstream: 3_000, issuer: 3_001, redis: 6_379 } as const;
type ReplicaOptions = Pick<
  History,
  'relay' | 'server' | 'gateway' | 'calls' | 'workers' | 'hasStore'
>;

const POOL_BYTES = 4_096;
const FIRST_PLACE = 'A'.charCodeAt(0);

const TOKENS = {
  source: 'jwt',
  issuer: ISSUER,
  audiences: [AUDIENCE],
  jwks: { url: `http://127.0.0.1:${PORTS.issuer}/keys` },
};

function settings(options: ReplicaOptions): string {
  const { relay, gateway, calls, hasStore } = options;
  const { transport } = options.server;
  const { identity, concurrency, release, maxParked, maxSessions, pingInterval, maxHold } = gateway;
  const path = transport === 'http-sse' ? 'sse' : 'mcp';
  return JSON.stringify({
    listen: '127.0.0.1:0',
    admin: 'off',
    routes: [
      {
        id: 'mcp',
        path: '/mcp',
        ...(calls.some(({ dialect }) => dialect !== null) && { dialects: DIALECT_PATHS }),
        upstream: isOverStdio(options.server)
          ? { command: 'simulated' }
          : {
              url: `http://127.0.0.1:${PORTS.upstream}/${path}`,
              ...(identity === 'jwt-forwarded' && { authorization: 'forward' }),
              ...(pingInterval !== null && { pingInterval }),
            },
        // Shorter than the time within which a client expects an outcome.
        calls: { maxDuration: '80s', ...(maxHold !== null && { maxHold }) },
        tasks: { promote: 'interactive', after: '2s', ttl: '70s' },
        parking: { ttl: '30s', release },
        sessions: {
          concurrency,
          // Nothing else ends what a client has left without a word.
          ...(isModern(options.server) && { idleTimeout: '10s' }),
          ...(maxSessions !== null && { max: maxSessions, maxPerPrincipal: maxSessions }),
        },
      },
    ],
    ...(identity !== 'none' && { identity: TOKENS }),
    seal: {
      audience: 'simulation',
      keys: [{ kid: 'only', key: Buffer.alloc(32, 7).toString('base64url') }],
    },
    drain: { delay: '0s', parked: '3s', timeout: '2s' },
    log: { level: 'debug', format: 'json' },
    limits: {
      maxMemoryPercent: 'off',
      ...(maxParked !== null && {
        maxParkedCalls: maxParked,
        maxParkedCallsPerPrincipal: maxParked,
      }),
    },
    ...(hasStore && {
      relay: relay === 'redis' ? { via: 'redis' } : { listen: '127.0.0.1:0' },
    }),
    ...(hasStore && { redis: { url: `redis://127.0.0.1:${PORTS.redis}` } }),
  });
}

/** A replica at its place. */
export class Replica {
  readonly place: string;
  readonly #options: ReplicaOptions;
  /** The process that runs there, or ran there last. */
  name = '';
  port = 0;
  isDraining = false;
  #starts = 0;
  #gateway: Gateway | null = null;
  #timers = new Set<object>();

  constructor(nth: number, options: ReplicaOptions) {
    this.#options = options;
    this.place = String.fromCharCode(FIRST_PLACE + nth);
  }

  get isUp(): boolean {
    return this.#gateway !== null && !this.isGone;
  }

  /** Whether its process is dead, or not yet there. */
  get isGone(): boolean {
    return this.name === '' || simulation().isDead(this.name);
  }

  /** The processes that run here: the one that was started, and its workers. */
  get processes(): string[] {
    return [
      this.name,
      ...forks()
        .childrenOf(this.name)
        .map(({ name }) => name),
    ];
  }

  /** Starts a process here. */
  async start(): Promise<void> {
    this.#starts++;
    const name = processAt(this.place, this.#starts);
    this.name = name;
    this.#gateway = null;
    this.isDraining = false;
    const timers = (this.#timers = new Set());
    const { config } = parseConfig(settings(this.#options), 'simulation.json', {
      env: {},
      readSecret: () => '',
    });
    const options = { log: logOf(name), clock: clockOf(name, timers) };
    const { workers } = this.#options;
    const gateway = await simulation().as(name, () =>
      workers === 1 ? startGateway(config, options) : startWorkers(config, workers, options),
    );
    if (this.name !== name) return;
    this.#gateway = gateway;
    this.port = Number(new URL(gateway.url).port);
  }

  /** Stops as after SIGTERM. */
  async drain(): Promise<void> {
    const { name } = this;
    const gateway = this.#gateway;
    if (gateway === null) return;
    this.isDraining = true;
    await simulation().as(name, () => gateway.drain());
  }

  /** Stops at once. */
  async close(): Promise<void> {
    const gateway = this.#gateway;
    if (gateway !== null) await simulation().as(this.name, () => gateway.close());
  }

  /** How many timers its clock has. */
  get timers(): number {
    return this.#timers.size;
  }
}

/** From now on each forked process is a worker. */
export function forkWorkers(): void {
  forks().program = (self) => runWorker(self, logOf(self.name), clockOf(self.name, new Set()));
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

function clockOf(name: string, timers: Set<object>): Clock {
  return {
    now: () => simulation().wallMs(name),
    elapsed: () => simulation().nowMs,
    setTimer(afterMs, callback) {
      const timer = {};
      timers.add(timer);
      // Whether it is cancelled counts when it fires: a frozen process has it fire late.
      const fire = () => {
        if (timers.delete(timer)) callback();
      };
      simulation().after(Math.max(0, afterMs), fire, name);
      return { cancel: () => timers.delete(timer) };
    },
  };
}
