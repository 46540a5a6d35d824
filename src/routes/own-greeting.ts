/**
 * What a server said of itself to the gateway, for clients whom the server itself does not tell in time. It is kept in Redis
 * over restarts, sealed: `instructions` can be private.
 */
import { inBackground } from '../lib/background.ts';
import { sha256 } from '../lib/crypto.ts';
import type { Store } from '../model/store.ts';
import { greetingId, type GreetingId } from '../protocol/ids.ts';
import { isJsonObject, parseJson, type JsonObject } from '../protocol/json.ts';
import { openBytes, sealBytes } from '../seal/envelope.ts';
import type { KeyRing } from '../seal/key-ring.ts';
import type { Greeting } from '../upstream/legacy-server.ts';
import type { SharedServices } from './shared-services.ts';

/** How long it is kept after the last greeting, in ms: longer than a server is down, or a gateway runs without a restart. */
const KEPT_MS = 30 * 86_400_000;
const MAX_SEALED_LENGTH = 256 * 1024;

/** What is told to clients: the result of `initialize`, and whether the server has a stream of its own. */
export type ToldGreeting = Pick<Greeting, 'hasStream'> & { readonly result: JsonObject };

export interface OwnGreetingOptions {
  readonly store: Pick<Store, 'state' | 'read'>;
  readonly ring: KeyRing<'greeting'>;
  /** The name of the deployment. */
  readonly audience: string;
  /** Where it is kept: what another server said is nothing to this one. */
  readonly id: GreetingId;
}

export class OwnGreeting {
  #latest: ToldGreeting | null = null;
  readonly #options: OwnGreetingOptions | null;

  /** @param options `null` if nothing outlives this process */
  constructor(options: OwnGreetingOptions | null) {
    this.#options = options;
  }

  /** What the server said last, to this process or to one before; `null` if nothing is known. */
  get latest(): ToldGreeting | null {
    return this.#latest;
  }

  /** Takes what the server says now, and keeps it. */
  note({ initialized, hasStream }: Greeting): void {
    const told = { result: initialized.raw, hasStream };
    this.#latest = told;
    if (this.#options === null) return;
    const { store, ring, audience, id } = this.#options;
    const sealed = sealBytes(
      ring,
      { audience, key: id },
      Buffer.from(JSON.stringify({ v: 1, ...told })),
    );
    if (sealed.length > MAX_SEALED_LENGTH) return;
    // It is better than nothing, and no request needs it.
    store.state(id, 'greeting', Buffer.from(sealed), KEPT_MS, null).catch(() => {});
  }

  /** Reads what was kept, unless the server says something before. Never rejects. */
  async load(): Promise<void> {
    if (this.#options === null) return;
    const { store, ring, audience, id } = this.#options;
    try {
      const sealed = await store.read(id, 'greeting');
      if (sealed === null) return;
      const text = Buffer.from(sealed).toString('latin1');
      const bytes = openBytes(ring, { audience, key: id }, text, MAX_SEALED_LENGTH);
      this.#latest ??= readTold(bytes.toString('utf8'));
    } catch {
      // The store is unreachable, or another key sealed it.
    }
  }
}

/** @returns `null` if another build wrote it */
function readTold(text: string): ToldGreeting | null {
  const told = parseJson(text);
  if (!isJsonObject(told) || told['v'] !== 1) return null;
  const { result, hasStream } = told;
  return isJsonObject(result) && typeof hasStream === 'boolean' ? { result, hasStream } : null;
}

/** Creates what a route keeps of its server. @param server its name */
export function ownGreetingOf(
  route: string,
  server: string,
  { config, replica: { directory }, sealKeys }: SharedServices,
): OwnGreeting {
  if (directory === null) return new OwnGreeting(null);
  const { audience } = config.seal;
  const ring = sealKeys.ring('greeting');
  const id = greetingId(`greeting:${sha256(JSON.stringify([route, server]))}`);
  const own = new OwnGreeting({ store: directory, ring, audience, id });
  inBackground(own.load());
  return own;
}
