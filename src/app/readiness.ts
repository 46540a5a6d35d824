/** Whether load balancers can send requests to a gateway, and what it waits for at its start. */
import type { Config } from '../config/schema.ts';
import type { Readiness } from '../ops/admin.ts';
import type { Routes } from '../routes/routes.ts';

/** The readiness of one process that has its routes. */
export class ProcessReadiness {
  isListening = false;
  isDraining = false;
  readonly #routes: Routes;
  readonly #identityProblem: () => string | null;
  #wasReady: boolean;

  /**
   * @param identityProblem returns what keeps the process from identifying callers; `null` if nothing does
   * @param wasReady whether the gateway was ready before this process started
   */
  constructor(routes: Routes, identityProblem: () => string | null, wasReady: boolean) {
    this.#routes = routes;
    this.#identityProblem = identityProblem;
    this.#wasReady = wasReady;
  }

  /** Once it was, readiness no longer depends on servers: they can fail, and a reload can add one that is down. */
  isReady(): boolean {
    const { configured } = this.#routes;
    const isUsable = this.isListening && this.#identityProblem() === null;
    this.#wasReady ||= isUsable && configured.every(({ server }) => server.availability.ready);
    return isUsable && this.#wasReady;
  }

  state(): Readiness {
    const problem = this.#identityProblem();
    return {
      status: this.isDraining ? 'draining' : this.isReady() ? 'ready' : 'not ready',
      ...(problem !== null && { identity: problem }),
      routes: Object.fromEntries(
        this.#routes.configured.map(({ config, server }) => [
          config.id,
          server.availability.status,
        ]),
      ),
    };
  }
}

/**
 * Returns the readiness of a gateway that has no routes yet.
 * @param hasJoined whether it has joined the other replicas, for which it needs Redis if that is configured
 */
export function readinessAtStart({ redis }: Config, hasJoined: boolean): Readiness {
  const isAwaited = redis !== null && !hasJoined;
  return { status: 'not ready', ...(isAwaited && { redis: 'no response yet' }), routes: {} };
}

/**
 * Returns the readiness of a gateway with several workers. It is ready if one worker is: a worker that is being replaced
 * takes no connections.
 * @param serving the workers that serve clients, and respond
 * @param haveJoined whether all that run have joined the other replicas
 */
export function readinessOfWorkers(
  serving: readonly Readiness[],
  haveJoined: boolean,
  config: Config,
): Readiness {
  const best = serving.find(({ status }) => status === 'ready') ?? serving[0];
  return best ?? readinessAtStart(config, haveJoined);
}
