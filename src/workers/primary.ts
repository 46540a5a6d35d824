/**
 * The primary of a gateway with several workers. It serves no client: it starts the workers, replaces those that end,
 * tells each of the others, sums their counts and metrics, and drains them together.
 */
import type { Config } from '../config/schema.ts';
import { inBackground, vitalWork } from '../lib/background.ts';
import { sleep, systemClock, type Clock } from '../lib/clock.ts';
import type { Readiness } from '../ops/admin.ts';
import type { LiveSnapshot } from '../ops/live/snapshot.ts';
import type { StopOrder } from '../ops/live/stop.ts';
import type { Log } from '../ops/log.ts';
import { SummedMetrics } from '../ops/summed-metrics.ts';
import type { SecretKey } from '../seal/key-ring.ts';
import { createAdminListener } from '../app/admin-listener.ts';
import { expectFree } from '../lib/listen.ts';
import { VERSION } from '../lib/program.ts';
import { mayStop, snapshotOf } from '../app/live/part.ts';
import { askWorkers } from './operator.ts';
import type { Gateway, GatewayOptions } from '../app/gateway.ts';
import { logListening } from '../app/listening-log.ts';
import {
  writeConfig,
  writeKey,
  type Sibling,
  type StatusOf,
  type ToWorker,
  type WorkerStatus,
} from './messages.ts';
import { MemoryStore } from '../fleet/store/memory-store.ts';
import { serveStore } from '../fleet/store/remote-store.ts';
import { readinessOfWorkers } from '../app/readiness.ts';
import { generateSealKey } from '../routes/settings.ts';
import { ConfigRefused, Reloads, type Prepared } from '../app/reload/reloads.ts';
import { CountSums } from './shared-counts.ts';
import { Restarts } from './number-of-workers.ts';
import { WorkerProcess } from './worker-process.ts';
import { RelayListener } from './relay-listener.ts';

/** What a drain takes beyond the configured times, in ms: less than the 10 s that docs/operate/deploys.md adds to the grace period. */
const DRAIN_EXTRA_MS = 8_000;
/** A timer that keeps the process alive while no worker runs: those of the clock do not. */
const AWAKE_MS = 3_600_000;

/**
 * Starts a gateway of several processes. Resolves when all of them serve clients.
 * @throws StartFailure if an address is not available, or for the reason of the first worker that cannot start
 */
export async function startWorkers(
  config: Config,
  count: number,
  { log, clock = systemClock }: GatewayOptions,
): Promise<Gateway> {
  // Workers would share the port with another gateway that has it.
  if (config.listen.port !== 0) await expectFree(config.listen, '--listen HOST:PORT');
  const generatedKey = config.seal.keys.length === 0 ? generateSealKey(config, log) : null;
  const primary = new Primary({ config, generatedKey, log, clock });
  const admin = createAdminListener(config.admin, primary, clock);
  const close = async () => {
    await Promise.all([admin.close(), primary.close()]);
  };
  try {
    const adminUrl = await admin.listen();
    await primary.listenForReplicas();
    const origin = await primary.start(count);
    const reload = (load: () => Config) => primary.reloads.reload(load);
    const drain = async () => {
      await primary.drain();
      await close();
    };
    const url = logListening(config, origin, adminUrl, log, count);
    return { url, adminUrl, failure: primary.failure, reload, drain, close };
  } catch (error) {
    await close();
    throw error;
  }
}

interface PrimaryOptions {
  readonly config: Config;
  readonly generatedKey: SecretKey | null;
  readonly log: Log;
  readonly clock: Clock;
}

class Primary {
  readonly reloads: Reloads;
  readonly #options: PrimaryOptions;
  /** The active configuration. */
  #config: Config;
  readonly #workers = new Map<number, WorkerProcess>();
  readonly #counts: CountSums;
  readonly #store: MemoryStore;
  readonly #metrics: SummedMetrics;
  readonly #restarts = new Restarts();
  readonly #failure = Promise.withResolvers<Error>();
  readonly #awake = setInterval(() => {}, AWAKE_MS);
  readonly #killAll = () => {
    for (const worker of this.#workers.values()) worker.kill();
  };
  readonly #relay: RelayListener;
  /** The port that the workers share; 0 until it is known. */
  #port = 0;
  #gatewayAddress: string | null = null;
  /** For workers that start later: what they do not reach must not make the gateway not ready. */
  #wasReady = false;
  #phase: 'starting' | 'running' | 'draining' | 'closed' = 'starting';

  constructor(options: PrimaryOptions) {
    const { config, clock, log } = options;
    this.#options = options;
    this.#config = config;
    this.reloads = new Reloads(config, { prepare: (next) => this.#prepare(next), clock, log });
    this.#metrics = new SummedMetrics(() => this.#serving().length, this.reloads.state);
    const instances = () => this.#siblings().map(({ instance }) => instance);
    this.#store = new MemoryStore(clock, (instance) => !instances().includes(instance));
    this.#relay = new RelayListener(
      (arrival) => this.#workerOf(arrival.to)?.pass(arrival) ?? false,
    );
    this.#counts = new CountSums(options.clock, (number, entries) =>
      this.#workers.get(number)?.send({ type: 'counts', entries }),
    );
    process.once('exit', this.#killAll);
  }

  /** Resolves if workers end so often that the gateway gives up. It has drained by then. */
  get failure(): Promise<Error> {
    return this.#failure.promise;
  }

  /** Starts the relay listener, if one is configured. @throws StartFailure if it cannot listen */
  async listenForReplicas(): Promise<void> {
    const { config, log } = this.#options;
    if (config.relay?.via !== 'http' || config.relay.listen === null) return;
    const origin = await this.#relay.listen(config.relay.listen);
    this.#gatewayAddress = config.relay.advertise?.origin ?? origin;
    log.event('relay.listening', { url: this.#gatewayAddress });
  }

  /** Starts the workers. @returns the origin of their listener */
  async start(count: number): Promise<string> {
    const { port } = this.#config.listen;
    const first = this.#launch(1, port);
    // If any port will do, the first worker takes one: nobody else can have it in between. Without it nothing starts.
    const taken = first.then((origin) => Number(new URL(origin).port)).catch(() => 0);
    const shared = port === 0 ? taken : port;
    const others = Array.from({ length: count - 1 }, (_, index) => index + 2);
    const [origin] = await Promise.all([
      first,
      ...others.map((number) => this.#launch(number, shared)),
    ]);
    this.#port = await shared;
    this.#phase = 'running';
    return origin;
  }

  async health(): Promise<boolean> {
    if (this.#phase === 'starting') return true;
    const statuses = await this.#statuses('readiness');
    return statuses.size > 0 && [...statuses.values()].every((status) => status !== null);
  }

  async readiness(): Promise<Readiness> {
    const serving = [...(await this.#statuses('readiness')).values()].flatMap((status) =>
      status === null ? [] : [status.readiness],
    );
    const haveJoined = this.#siblings().length === this.#workers.size;
    const state = readinessOfWorkers(serving, haveJoined, this.#config);
    this.#wasReady ||= state.status === 'ready';
    if (this.#phase === 'running') return state;
    return { ...state, status: this.#phase === 'starting' ? 'not ready' : 'draining' };
  }

  async metrics(): Promise<string> {
    const statuses = await this.#statuses('metrics');
    return this.#metrics.text(
      new Map(
        [...statuses].flatMap(([number, status]) =>
          status?.metrics ? [[number, status.metrics] as const] : [],
        ),
      ),
    );
  }

  async live(): Promise<LiveSnapshot> {
    const view = await askWorkers(this.#serving(), { type: 'look' });
    return snapshotOf(view, this.#options.clock, this.#config);
  }

  mayStop(): boolean {
    return mayStop(this.#config);
  }

  async stop(order: StopOrder): Promise<boolean> {
    return (await askWorkers(this.#serving(), { type: 'stop', ...order })).isStopped;
  }

  /** Drains all workers at once. One that does not end in time is killed. */
  async drain(): Promise<void> {
    if (this.#phase === 'draining') return this.#allEnded();
    this.#phase = 'draining';
    this.reloads.stop();
    this.#broadcast({ type: 'drain' });
    const { delayMs, parkedMs, timeoutMs } = this.#config.drain;
    const atMostMs = delayMs + parkedMs + timeoutMs + DRAIN_EXTRA_MS;
    await Promise.race([this.#allEnded(), sleep(this.#options.clock, atMostMs)]);
    await this.close();
  }

  /** Ends all workers at once. */
  async close(): Promise<void> {
    this.#phase = 'closed';
    clearInterval(this.#awake);
    this.#relay.close();
    this.#killAll();
    await this.#allEnded();
    process.off('exit', this.#killAll);
  }

  /** Starts one worker, and resolves to its origin when it serves clients. */
  async #launch(number: number, port: number | Promise<number>): Promise<string> {
    const { generatedKey, clock, log } = this.#options;
    const config = this.#config;
    const worker = new WorkerProcess(number, config, {
      clock,
      onCounts: (entries) => this.#counts.report(number, entries),
      onStore: (asked, instance) => serveStore(this.#store.of({ id: instance, instance }), asked),
      onEnd: () => this.#onEnd(worker),
    });
    this.#workers.set(number, worker);
    worker.send({
      type: 'start',
      version: VERSION,
      number,
      config: writeConfig(config),
      generatedKey: generatedKey && writeKey(generatedKey),
      wasReady: this.#wasReady,
      gatewayAddress: this.#gatewayAddress,
      counts: this.#counts.join(number),
    });
    await worker.joined;
    // Before it serves: the others must know it when they get retries of its calls, and it must know them.
    this.#broadcast({ type: 'siblings', siblings: this.#siblings() });
    worker.send({ type: 'serve', port: await port });
    const origin = await worker.serving;
    log.event('worker.started', { worker: number, pid: worker.pid });
    await this.#catchUp(worker);
    return origin;
  }

  /** Has all workers prepare a configuration. @throws ConfigRefused if one of them cannot use it */
  async #prepare(config: Config): Promise<Prepared> {
    const workers = this.#serving().filter(({ isFollowing }) => isFollowing);
    const prepared = Promise.all(workers.map((worker) => worker.prepare(config)));
    // Nobody may have asked whether it is ready so far, and then its servers can be others.
    const [problems] = await Promise.all([prepared, this.readiness()]);
    const abandon = async () => {
      for (const worker of workers) worker.send({ type: 'abandon' });
    };
    if (problems.some(({ length }) => length > 0)) {
      await abandon();
      throw new ConfigRefused([...new Set(problems.flat())]);
    }
    const commit = () => {
      this.#config = config;
      this.#options.log.setLevel?.(config.log.level);
      for (const worker of workers) worker.commit(config);
      for (const worker of this.#serving())
        if (worker.isFollowing) inBackground(this.#catchUp(worker));
    };
    return { commit, abandon };
  }

  /** Gives a worker the active configuration, if it began with an earlier one. From then on it follows. */
  async #catchUp(worker: WorkerProcess): Promise<void> {
    worker.isFollowing = false;
    while (worker.config !== this.#config) {
      const config = this.#config;
      const problems = await worker.prepare(config);
      if (problems.length > 0) return worker.kill();
      worker.commit(config);
    }
    worker.isFollowing = true;
  }

  #onEnd(worker: WorkerProcess): void {
    const { number, pid, problem, sibling } = worker;
    this.#workers.delete(number);
    this.#counts.leave(number);
    if (sibling !== null) this.#broadcast({ type: 'sibling-ended', instance: sibling.instance });
    if (this.#phase !== 'running') return;
    inBackground(this.#metrics.workerEnded(number));
    const { clock, log } = this.#options;
    const restartMs = this.#restarts.next(clock.elapsed());
    log.event('worker.ended', { worker: number, pid, problem, restartMs });
    if (restartMs === null) vitalWork(this.#giveUp());
    else clock.setTimer(restartMs, () => this.#replace(number));
  }

  #replace(number: number): void {
    if (this.#phase !== 'running') return;
    this.#launch(number, this.#port).catch(() => this.#workers.get(number)?.kill());
  }

  async #giveUp(): Promise<void> {
    await this.drain();
    this.#failure.resolve(new Error('workers end too often; worker.ended in the log says how'));
  }

  async #allEnded(): Promise<void> {
    await Promise.all([...this.#workers.values()].map(({ ended }) => ended));
  }

  #broadcast(message: ToWorker): void {
    for (const worker of this.#workers.values()) worker.send(message);
  }

  #siblings(): Sibling[] {
    return [...this.#workers.values()].flatMap(({ sibling }) => sibling ?? []);
  }

  #workerOf(instance: string): WorkerProcess | undefined {
    return [...this.#workers.values()].find(({ sibling }) => sibling?.instance === instance);
  }

  #serving(): WorkerProcess[] {
    return [...this.#workers.values()].filter(({ isServing }) => isServing);
  }

  /** Asks the workers that serve clients. `null` is one that does not respond. */
  async #statuses(of: StatusOf): Promise<Map<number, WorkerStatus | null>> {
    const asked = this.#serving().map(
      async (worker) => [worker.number, await worker.status(of)] as const,
    );
    return new Map(await Promise.all(asked));
  }
}
