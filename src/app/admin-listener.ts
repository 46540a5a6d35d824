/** The admin listener of a gateway, if one is configured. */
import type { FastifyInstance } from 'fastify';
import type { ListenAddress } from '../config/units.ts';
import { isAllowedHost } from '../edge/http/guard.ts';
import type { Clock } from '../lib/clock.ts';
import { isLoopbackHost } from '../lib/http.ts';
import { createAdmin, type AdminSource } from '../ops/admin.ts';
import { listen } from './listen.ts';

export class AdminListener {
  readonly #at: ListenAddress | null;
  readonly #app: FastifyInstance | null;

  /** @param at `null` if there is no admin listener */
  constructor(at: ListenAddress | null, source: AdminSource, clock: Clock) {
    this.#at = at;
    this.#app = at === null ? null : createAdmin(source, knownHosts(at), clock);
  }

  /** @returns its URL, or `null` if there is none. @throws StartFailure if it cannot listen */
  async listen(): Promise<string | null> {
    if (this.#app === null || this.#at === null) return null;
    return listen(this.#app, this.#at, '--admin HOST:PORT');
  }

  async close(): Promise<void> {
    await this.#app?.close();
  }
}

/** Creates the check of the `Host`. */
function knownHosts({ host }: ListenAddress): (name: string) => boolean {
  const policy = { allowedOrigins: [], allowedHosts: [], onLoopback: isLoopbackHost(host) };
  return (name) => isAllowedHost(name, policy);
}
