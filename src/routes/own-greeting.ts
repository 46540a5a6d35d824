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

export class OwnGreeting {
  #latest: ToldGreeting | null = null;
  readonly #store: Store | null;
  readonly #ring: KeyRing<'greeting'>;
  readonly #place: { readonly audience: string; readonly key: GreetingId };

  /**
   * Reads what was kept, unless the server says something before.
   * @param server its name: what another server said is nothing to this one
   */
  constructor(route: string, server: string, { config, replica, sealKeys }: SharedServices) {
    this.#store = replica.directory;
    this.#ring = sealKeys.ring('greeting');
    const key = greetingId(`greeting:${sha256(JSON.stringify([route, server]))}`);
    this.#place = { audience: config.seal.audience, key };
    inBackground(this.#load());
  }

  /** What the server said last, to this process or to one before; `null` if nothing is known. */
  get latest(): ToldGreeting | null {
    return this.#latest;
  }

  /** Takes what the server says now, and keeps it. */
  note({ initialized, hasStream }: Greeting): void {
    const told = { result: initialized.raw, hasStream };
    this.#latest = told;
    if (this.#store === null) return;
    const bytes = Buffer.from(JSON.stringify({ v: 1, ...told }));
    const sealed = sealBytes(this.#ring, this.#place, bytes);
    if (sealed.length > MAX_SEALED_LENGTH) return;
    // It is better than nothing, and no request needs it.
    const { key } = this.#place;
    this.#store.state(key, 'greeting', Buffer.from(sealed), KEPT_MS, null).catch(() => {});
  }

  async #load(): Promise<void> {
    try {
      const sealed = (await this.#store?.read(this.#place.key, 'greeting')) ?? null;
      if (sealed === null) return;
      const text = Buffer.from(sealed).toString('latin1');
      const bytes = openBytes(this.#ring, this.#place, text, MAX_SEALED_LENGTH);
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
