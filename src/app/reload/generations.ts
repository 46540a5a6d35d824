/**
 * What a process makes of one configuration after the other: its callers, its routes, and the application that serves
 * them. The next generation is prepared beside the current one, and takes its place at once. A route whose settings are
 * the same is the same object in both.
 */
import { isDeepStrictEqual } from 'node:util';
import { publicPaths, type Config, type RouteConfig } from '../../config/schema.ts';
import { Identity } from '../../identity/identity.ts';
import { inBackground } from '../../lib/background.ts';
import { sleep, type Clock } from '../../lib/clock.ts';
import { FAILURES } from '../../model/failures.ts';
import { LIMIT_NAMES } from '../../model/limited.ts';
import { HOP_OUTCOMES } from '../../model/relay.ts';
import { CANCEL_GRACE_MS } from '../../routes/route-calls.ts';
import { createRoute, type Route } from '../../routes/route.ts';
import type { RouteServer } from '../../routes/route-server.ts';
import type { LegacySessions } from '../../front/legacy/sessions.ts';
import type { PublicListener } from '../../front/public-listener.ts';
import { createPublicApp, type PublicApp } from '../../front/public-app.ts';
import type { Routes } from '../../routes/routes.ts';
import type { Services } from '../services.ts';
import { claimsNamedIn, configuredKeys, longestLife } from '../../routes/settings.ts';

export interface Generation {
  readonly config: Config;
  readonly identity: Identity;
  readonly routes: readonly Route[];
  readonly app: PublicApp;
  /** The former routes whose retries the application serves. */
  readonly former: readonly Route[];
  /**
   * Waits a while for what the current generation does not have.
   * @throws StartFailure if an upstream responds and is not usable
   */
  start(): Promise<void>;
}

/** How long the start, or a reload, waits for upstreams. After that they are tried in the background. */
const START_WAIT_MS = 5_000;
/** How long former routes serve retries at least, in ms: their list requests have ended by then. */
const MIN_FORMER_MS = 60_000;
/** How often it is checked whether calls still use a former route, in ms. */
const CHECK_EVERY_MS = 5_000;

export class Generations {
  readonly #routes: Routes;
  readonly #services: Services;
  readonly #listener: PublicListener;
  readonly #sessions: LegacySessions;
  readonly #ownClock: Clock;
  readonly #closing = new AbortController();
  #current: Generation | null = null;

  /**
   * @param sessions of legacy clients
   * @param ownClock that of the machine, which says when a token is over: its issuer does not know the clock of Redis
   */
  constructor(
    routes: Routes,
    services: Services,
    listener: PublicListener,
    sessions: LegacySessions,
    ownClock: Clock,
  ) {
    this.#routes = routes;
    this.#services = services;
    this.#listener = listener;
    this.#sessions = sessions;
    this.#ownClock = ownClock;
  }

  get current(): Generation | null {
    return this.#current;
  }

  /**
   * Prepares a generation that can take the place of the current one at once.
   * @throws InvalidKeyRing for a key that cannot be used beside the current ones
   * @throws StartFailure if an upstream responds and is not usable
   */
  async prepare(config: Config): Promise<Generation> {
    await this.#services.prepare(config);
    const next = await this.create(config);
    try {
      await next.start();
    } catch (error) {
      await this.abandon(next);
      throw error;
    }
    return next;
  }

  /** Creates a generation beside the current one. Nothing is sent to servers yet. @throws InvalidKeyRing */
  async create(config: Config): Promise<Generation> {
    const { shared } = this.#services;
    const { configured, former } = this.#routes;
    shared.sealKeys.admit(configuredKeys(config));
    const identity = this.#identityFor(config);
    const routes = config.routes.map((settings) => this.#routeFor(settings));
    const leaving = configured.filter((route) => !routes.includes(route));
    const served = [...former, ...leaving];
    const { connections } = this.#listener;
    const services = { ...shared, config, identity, connections };
    const app = await createPublicApp(routes, served, services, this.#sessions);
    const servers = routes.flatMap(({ server }) => (this.#isInForce(server) ? [] : server));
    const isNewIdentity = identity !== this.#current?.identity;
    const start = async () => {
      await Promise.all([
        isNewIdentity ? identity.start() : null,
        ...servers.map(({ availability }) => availability.start(START_WAIT_MS)),
      ]);
    };
    return { config, identity, routes, app, former: served, start };
  }

  /** Closes a generation that does not take the place of the current one. */
  async abandon({ identity, routes, app }: Generation): Promise<void> {
    this.#services.shared.sealKeys.dismiss();
    if (identity !== this.#current?.identity) identity.close();
    app.retire();
    const created = routes.filter((route) => !this.#routes.configured.includes(route));
    await Promise.all(created.map((route) => this.#closeRoute(route)));
  }

  /** Has a generation take the place of the current one. Former routes end with their calls. */
  commit(next: Generation): void {
    const { shared, use } = this.#services;
    const earlier = this.#current;
    this.#current = next;
    use(next.config);
    const lifeMs = longestLife(next.config, earlier?.config);
    shared.sealKeys.rotate(configuredKeys(next.config), lifeMs);
    // What was seen of a former server of a route says nothing about this one.
    for (const { config, server } of next.routes)
      if (!this.#isInForce(server)) shared.metrics.upstreamUp(config.id, true);
    this.#routes.configured = next.routes;
    for (const route of next.routes) route.open();
    shared.metrics.begin(
      next.routes.map(({ config }) => config.id),
      {
        limits: LIMIT_NAMES,
        failures: Object.keys(FAILURES).filter((reason) => reason !== '-'),
        hops: shared.hasSiblings ? HOP_OUTCOMES : [],
      },
    );
    this.#listener.serve(next.app.serve);
    if (earlier === null) return;
    earlier.app.retire();
    if (earlier.identity !== next.identity) earlier.identity.replaceBy(next.identity);
    for (const route of earlier.routes) if (!next.routes.includes(route)) this.#leave(route);
    // One can have ended while the generation was prepared.
    for (const route of next.former) if (!this.#routes.former.has(route)) next.app.forget(route);
  }

  /** Closes everything. */
  async close(): Promise<void> {
    this.#closing.abort();
    this.#current?.identity.close();
    this.#current?.app.retire();
    this.#services.shared.sealKeys.close();
    // Ending sessions is optional: the process does not wait for a server that does not respond.
    await Promise.all(this.#routes.all.map(async ({ resource }) => resource?.close()));
    await Promise.all([...this.#routes.servers].map((server) => this.#closeServer(server)));
  }

  #identityFor(config: Config): Identity {
    const clock = this.#ownClock;
    const { log } = this.#services.shared;
    const { identity, edge } = config;
    const { trustedProxies } = edge;
    const claims = claimsNamedIn(config);
    const current = this.#current;
    const isSame =
      current !== null &&
      isDeepStrictEqual(current.config.identity, identity) &&
      isDeepStrictEqual(claimsNamedIn(current.config), claims) &&
      isDeepStrictEqual(current.config.edge.trustedProxies, trustedProxies);
    if (isSame) return current.identity;
    return new Identity({ identity, claims, trustedProxies, clock, log });
  }

  #routeFor(config: RouteConfig): Route {
    const earlier = this.#routes.find(config.id) ?? null;
    const isConfigured = earlier !== null && this.#routes.configured.includes(earlier);
    if (isConfigured && isDeepStrictEqual(earlier.config, config)) return earlier;
    return createRoute(config, this.#services.shared, earlier);
  }

  #isInForce(server: RouteServer): boolean {
    return this.#routes.configured.some((route) => route.server === server);
  }

  /** Lets go of a route that was replaced, or removed. */
  #leave(route: Route): void {
    const { server, calls, subscriptions, retire } = route;
    retire();
    const next = this.#routes.configured.find(({ config }) => config.id === route.config.id);
    // Its listeners reconnect. Those of a server that goes on stay with it.
    if (next?.subscriptions !== subscriptions) subscriptions.endAll();
    if (next?.server !== server) {
      server.availability.close();
      server.pool.retire();
      server.processes?.retire();
      this.#sessions.retire(server.channels);
    }
    if (next === undefined) calls.stopNewCalls();
    this.#routes.former.add(route);
    const hasPaths = next && isDeepStrictEqual(publicPaths(next.config), publicPaths(route.config));
    // Retries come to the route that has its id and its paths, if there is one.
    inBackground(this.#forgetLater(route, hasPaths ? MIN_FORMER_MS : route.longestCallMs));
  }

  /** Forgets a former route when no client can have anything of it, here or at another replica. */
  async #forgetLater(route: Route, lifeMs: number): Promise<void> {
    const { clock } = this.#services.shared;
    const { signal } = this.#closing;
    await sleep(clock, Math.max(lifeMs, MIN_FORMER_MS), signal);
    while (!signal.aborted && this.#isUsed(route)) await sleep(clock, CHECK_EVERY_MS, signal);
    if (signal.aborted) return;
    this.#routes.former.delete(route);
    this.#current?.app.forget(route);
    await this.#closeRoute(route);
  }

  #isUsed({ calls, server }: Route): boolean {
    const isUsing = calls.isUsing(server.pool) || server.processes?.isUsed === true;
    return !this.#isInForce(server) && isUsing;
  }

  /** Closes a route that is neither configured nor former, and its server if no other route has it. */
  async #closeRoute({ resource, server }: Route): Promise<void> {
    await resource?.close();
    if (!this.#routes.servers.has(server)) await this.#closeServer(server);
  }

  async #closeServer({ availability, pool, processes, upstream }: RouteServer): Promise<void> {
    availability.close();
    inBackground(processes?.close());
    await Promise.race([pool.close(), sleep(this.#services.shared.clock, CANCEL_GRACE_MS)]);
    await upstream.close();
  }
}
