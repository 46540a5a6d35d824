/** What the soak runs: Redis, a server that others wrote, replicas of the gateway, and what balances the load. */
import { readdirSync, readFileSync } from 'node:fs';
import { Redis } from 'ioredis';
import { RoundRobin } from '../test/fixtures/gateways/load-balancer.ts';
import {
  EVERYTHING_STDIO,
  startEverything,
  type ServerProcess,
} from '../test/fixtures/processes.ts';
import { startRedis, type RedisServer } from '../test/fixtures/redis/redis-server.ts';
import { Replica } from './replica.ts';
import type { Outside } from './verdict.ts';

const NAMES = ['one', 'two', 'three'] as const;
/** Processes over stdio have it as their last argument, whatever became of who started them. */
const MARK = `soak-${process.pid}`;

/** What changes in the configuration during the soak. */
export interface Settings {
  readonly keys: readonly string[];
  readonly maxRounds: number;
  readonly hasThirdRoute: boolean;
}

export class World {
  readonly replicas: readonly Replica[];
  readonly front: RoundRobin;
  readonly #server: ServerProcess;
  readonly #redis: RedisServer;
  readonly #client: Redis;

  private constructor(
    replicas: readonly Replica[],
    front: RoundRobin,
    server: ServerProcess,
    redis: RedisServer,
  ) {
    this.replicas = replicas;
    this.front = front;
    this.#server = server;
    this.#redis = redis;
    this.#client = new Redis(redis.url.href);
  }

  /** @param folder for configurations and logs */
  static async start(folder: string, settings: Settings): Promise<World> {
    const [server, redis] = await Promise.all([startEverything('streamableHttp'), startRedis()]);
    const replicas = await Promise.all(NAMES.map((name) => Replica.create(name, folder)));
    const front = await RoundRobin.start(replicas.map(({ origin }) => origin));
    const world = new World(replicas, front, server, redis);
    await world.write(settings);
    await Promise.all(replicas.map((replica) => replica.start()));
    return world;
  }

  /** Writes the configuration of all replicas. */
  async write(settings: Settings): Promise<void> {
    const config = configOf(settings, `${this.#server.origin}/mcp`, this.#redis.url.href);
    await Promise.all(this.replicas.map((replica) => replica.write(config)));
  }

  async outside(): Promise<Outside> {
    const lines = this.#server.output();
    const count = (text: string) => lines.split(text).length - 1;
    const keys = await this.#client.keys('*');
    const lives = await Promise.all(keys.map((key) => this.#client.pttl(key)));
    return {
      held: (await Promise.all(this.replicas.map((replica) => replica.sessions()))).reduce(
        (sum, held) => sum + held,
      ),
      sessions: count('Session initialized with ID') - count('Transport closed for session'),
      processes: processes(MARK),
      redisKeys: keys.filter((key) => !key.endsWith(':token')).length,
      lastingKeys: lives.filter((ms) => ms === -1).length,
    };
  }

  async stop(): Promise<void> {
    this.#client.disconnect();
    await Promise.all(this.replicas.map((replica) => replica.end('SIGTERM')));
    await Promise.all([this.front.stop(), this.#server.stop(), this.#redis.stop()]);
  }
}

function configOf({ keys, maxRounds, hasThirdRoute }: Settings, url: string, redis: string) {
  const { command, args, env } = EVERYTHING_STDIO;
  const common = {
    // Short, so that what can be left behind is left behind during the soak.
    sessions: { idleTimeout: '15s' },
    // A question is held for 30 s, and what becomes of it has to be told.
    parking: { ttl: '15s', callTtl: '45s', maxRounds },
    tasks: { promote: 'never' },
    limits: { ratePerPrincipal: '1000/s' },
  };
  const stdio = { command, args: [...args, MARK], env };
  return {
    routes: [
      { id: 'mcp', path: '/mcp', upstream: { url }, ...common },
      { id: 'stdio', path: '/stdio', upstream: stdio, ...common },
      ...(hasThirdRoute ? [{ id: 'third', path: '/third', upstream: { url }, ...common }] : []),
    ],
    seal: {
      audience: 'soak',
      keys: keys.map((kid) => ({
        kid,
        key: Buffer.from(kid.padEnd(32, '.')).toString('base64url'),
      })),
    },
    redis: { url: redis },
    // Requests that were sent to a replica before it was taken out of the balance reach it while it accepts them.
    drain: { delay: '1s', timeout: '5s' },
    log: { level: 'info', format: 'json' },
  };
}

/** Counts the processes of this machine with the mark in their command line. */
function processes(mark: string): number {
  return readdirSync('/proc').filter((pid) => {
    if (!/^\d+$/.test(pid)) return false;
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').includes(mark);
    } catch {
      return false;
    }
  }).length;
}
