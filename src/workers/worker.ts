/** One worker of a gateway: a gateway without an admin listener, which does what the primary tells it. */
import type { Socket } from 'node:net';
import type { Config } from '../config/schema.ts';
import { systemClock } from '../lib/clock.ts';
import { LruMap } from '../lib/containers.ts';
import { StartFailure, VERSION } from '../lib/program.ts';
import type { Arrival } from '../fleet/relay/direct/handshake.ts';
import { openGateway, type GatewayOptions, type GatewayProcess } from '../app/gateway.ts';
import {
  NOTHING,
  serveEverywhere,
  type OperatorReply,
  type OperatorRequest,
} from '../app/live/operator.ts';
import type { Siblings } from '../app/replica.ts';
import { RemoteStore } from '../fleet/store/remote-store.ts';
import { problemsOf, type Prepared } from '../app/reload/reloads.ts';
import {
  readConfig,
  type FromWorker,
  type Sibling,
  type StatusOf,
  type ToWorker,
  type WorkerStart,
  type WorkerStatus,
} from './messages.ts';
import { readKey } from '../routes/settings.ts';
import { SharedCounts } from './shared-counts.ts';

type ArrivalMessage = Extract<ToWorker, { type: 'arrival' }>;

const MAX_ENDED_SIBLINGS = 1_000;

export class Worker {
  readonly #config: Config;
  readonly #primaryVersion: string;
  readonly #send: (message: FromWorker) => void;
  readonly #open: () => Promise<GatewayProcess>;
  readonly #siblings: KnownSiblings;
  readonly #store: RemoteStore;
  readonly #counts: SharedCounts;
  readonly #ended = Promise.withResolvers<void>();
  readonly #arrivals = new Map<number, Arrival>();
  #gateway: GatewayProcess | null = null;
  /** What was prepared last, after all that was asked before: `null` if it was put in force, or abandoned. */
  #prepared: Promise<Prepared | null> = Promise.resolve(null);

  constructor(
    start: WorkerStart,
    config: Config,
    send: (message: FromWorker) => void,
    { log, clock = systemClock }: Pick<GatewayOptions, 'log' | 'clock'>,
  ) {
    this.#config = config;
    this.#primaryVersion = start.version;
    this.#send = send;
    this.#store = new RemoteStore(clock, (request, asked) =>
      send({ type: 'store', request, asked }),
    );
    this.#siblings = new KnownSiblings(start.gatewayAddress, this.#store);
    this.#counts = new SharedCounts(clock, (entries) => send({ type: 'counts', entries }));
    this.#counts.receive(start.counts);
    const shares = {
      counts: this.#counts,
      siblings: this.#siblings,
      generatedKey: start.generatedKey && readKey(start.generatedKey),
      wasReady: start.wasReady,
    };
    this.#open = () => openGateway(config, { log, clock }, shares);
  }

  /**
   * Runs until it has drained.
   * @throws StartFailure if it cannot start
   */
  async run(): Promise<void> {
    if (this.#primaryVersion !== VERSION) {
      const versions = `the gateway runs version ${this.#primaryVersion}, and version ${VERSION} is installed by now`;
      throw new StartFailure('other_version', `${versions}; start it again`);
    }
    this.#gateway = await this.#open();
    const { owner, siblingAddress } = this.#gateway.replica;
    this.#send({ type: 'joined', instance: owner.instance, address: siblingAddress ?? '' });
    await this.#ended.promise;
  }

  /** @param socket the connection of an arrival; none if the replica has left meanwhile */
  receive(message: ToWorker, socket?: Socket): void {
    switch (message.type) {
      case 'siblings':
        return this.#siblings.set(message.siblings);
      case 'sibling-ended':
        return this.#siblings.end(message.instance);
      case 'counts':
        return this.#counts.receive(message.entries);
      case 'store-reply':
        return this.#store.receive(message.request, message.reply);
      case 'serve':
        return this.#settle(this.#serve(message.port), () => {});
      case 'status':
        return this.#settle(this.#status(message.of), (status) =>
          this.#send({ type: 'status', request: message.request, status }),
        );
      case 'operator': {
        const { request, asked, isElsewhere } = message;
        return this.#settle(this.#serveOperator(asked, isElsewhere), (reply) =>
          this.#send({ type: 'operator', request, reply }),
        );
      }
      case 'arrival':
        if (socket !== undefined) this.#arrive(message, socket);
        return this.#send({ type: 'arrived', id: message.id });
      case 'accept':
        return this.#accept(message.id);
      case 'prepare':
        return this.#next(() => this.#prepare(message.request, readConfig(message.config)));
      case 'commit':
        return this.#next(async (prepared) => {
          prepared?.commit();
          return null;
        });
      case 'abandon':
        return this.#next(async (prepared) => {
          await prepared?.abandon();
          return null;
        });
      case 'drain':
        return this.#settle(this.#gateway?.drain() ?? Promise.resolve(), this.#ended.resolve);
      case 'start':
    }
  }

  #arrive({ id, to, hello }: ArrivalMessage, socket: Socket): void {
    this.#arrivals.set(id, { to, hello, socket, head: Buffer.alloc(0) });
    socket.on('error', () => {});
    socket.once('close', () => this.#arrivals.delete(id));
  }

  #accept(id: number): void {
    const arrival = this.#arrivals.get(id);
    this.#arrivals.delete(id);
    if (arrival !== undefined) this.#gateway?.replica.accept(arrival);
  }

  #next(step: (prepared: Prepared | null) => Promise<Prepared | null>): void {
    this.#prepared = this.#prepared.then(step);
  }

  async #prepare(request: number, config: Config): Promise<Prepared | null> {
    try {
      const prepared = (await this.#gateway?.prepare(config)) ?? null;
      this.#send({ type: 'prepared', request, problems: [] });
      return prepared;
    } catch (error) {
      this.#send({ type: 'prepared', request, problems: problemsOf(error) });
      return null;
    }
  }

  async #serve(port: number): Promise<void> {
    const { host } = this.#config.listen;
    const origin = await this.#gateway?.listen({ host, port }, { reusePort: true });
    this.#send({ type: 'serving', origin: origin ?? '' });
  }

  async #status(of: StatusOf): Promise<WorkerStatus> {
    const gateway = this.#gateway;
    return {
      readiness: gateway?.readiness() ?? { status: 'not ready', routes: {} },
      metrics: of === 'metrics' ? ((await gateway?.metrics.snapshot()) ?? null) : null,
    };
  }

  async #serveOperator(asked: OperatorRequest, isElsewhere: boolean): Promise<OperatorReply> {
    const gateway = this.#gateway;
    if (gateway === null) return NOTHING;
    return isElsewhere ? serveEverywhere(gateway, asked) : gateway.serveOperator(asked);
  }

  #settle<Value>(promise: Promise<Value>, then: (value: Value) => void): void {
    promise.then(then, this.#ended.reject);
  }
}

/** The siblings as the primary reports them. */
class KnownSiblings implements Siblings {
  readonly gatewayAddress: string | null;
  readonly store: RemoteStore;
  #addresses: ReadonlyMap<string, string> = new Map();
  readonly #ended = new LruMap<string, true>(MAX_ENDED_SIBLINGS);
  readonly #listeners: ((instance: string) => void)[] = [];

  constructor(gatewayAddress: string | null, store: RemoteStore) {
    this.store = store;
    this.gatewayAddress = gatewayAddress;
  }

  get count(): number {
    return this.#addresses.size;
  }

  addressOf(instance: string): string | null {
    return this.#addresses.get(instance) ?? null;
  }

  hasEnded(instance: string): boolean {
    return this.#ended.has(instance);
  }

  onEnd(listener: (instance: string) => void): void {
    this.#listeners.push(listener);
  }

  set(siblings: readonly Sibling[]): void {
    this.#addresses = new Map(siblings.map(({ instance, address }) => [instance, address]));
  }

  end(instance: string): void {
    this.#addresses = new Map([...this.#addresses].filter(([known]) => known !== instance));
    this.#ended.set(instance, true);
    for (const listener of this.#listeners) listener(instance);
  }
}
