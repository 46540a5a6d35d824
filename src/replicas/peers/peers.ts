/**
 * The gateways that find homes without Redis: which of them are there. Each asks all others every second. One that is asked by
 * a gateway that it does not know asks back before it replies, so a gateway that starts is known when it serves.
 */
import type { LookupAddress } from 'node:dns';
import { lookup } from 'node:dns/promises';
import { Agent, request as send } from 'undici';
import { sleep, type Clock, type Timer } from '../../lib/clock.ts';
import { randomId, sha256 } from '../../lib/crypto.ts';
import type { KeyRing } from '../../seal/key-ring.ts';
import {
  PEERS_PATH,
  MAX_MESSAGE_BYTES,
  openPeerMessage,
  openPeerReply,
  sealPeerMessage,
  type PeerReply,
  type PeerRequest,
} from './peer-messages.ts';

/** Where the others are: their relay URLs, or a name that has an address for each of them. */
export type PeerAddresses =
  readonly URL[] | { readonly dns: { readonly host: string; readonly port: number } };

export interface PeersOptions {
  readonly addresses: PeerAddresses;
  /** The name of this gateway, which no other process ever has. */
  readonly name: string;
  /** Returns the processes of this gateway that can have homes. */
  readonly boots: () => readonly string[];
  readonly ring: KeyRing<'peers'>;
  readonly clock: Clock;
  readonly onUp: (peer: string) => void;
  readonly onDown: (peer: string, problem: string) => void;
  /** Finds the addresses of a name. Default: the resolver of the system. */
  readonly resolve?: (host: string) => Promise<readonly LookupAddress[]>;
}

/** Serves what another gateway says about homes. */
export type ServePeer = (request: PeerRequest, from: Peer) => Promise<PeerReply['said']>;

export interface Peer {
  readonly origin: string;
  /** The gateway that answers there; `null` if none does. */
  readonly name: string | null;
  readonly boots: Set<string>;
}

interface KnownPeer extends Peer {
  /** Whether it is configured. Another one has asked, and is forgotten when it leaves. */
  isConfigured: boolean;
  name: string | null;
  boots: Set<string>;
  heardAtMs: number;
  failingSinceMs: number | null;
  failures: number;
  timer: Timer | null;
}

/** Thrown if a peer did not reply. */
export class PeerUnreachable extends Error {
  override readonly name = 'PeerUnreachable';
}

const MAX_PEERS = 64;
const REPLY_TIMEOUT_MS = 1_000;
const ASK_EVERY_MS = 1_000;
const MAX_BACKOFF_MS = 5_000;
/** A peer that does not reply for so long counts as dead. */
const DEAD_AFTER_MS = 5_000;
/** How old the last reply can be that the sender of a message has heard. */
const FRESH_MS = 10_000;
const RESOLVE_EVERY_MS = 5_000;
const RESOLVE_TIMEOUT_MS = 2_000;

export class Peers {
  readonly #options: PeersOptions;
  readonly #agent = new Agent({
    connect: { timeout: REPLY_TIMEOUT_MS },
    maxResponseSize: MAX_MESSAGE_BYTES,
    pipelining: 1,
  });
  readonly #known = new Map<string, KnownPeer>();
  #serve: ServePeer = async () => null;
  #address = '';
  #version = 0;
  #resolving: Timer | null = null;
  #isClosed = false;

  constructor(options: PeersOptions) {
    this.#options = options;
  }

  /** Grows each time that a gateway comes or goes. */
  get version(): number {
    return this.#version;
  }

  /** The other gateways that are there. */
  get members(): Peer[] {
    const byName = new Map<string, Peer>();
    for (const peer of this.#known.values()) {
      if (peer.name !== null && peer.name !== this.#options.name) byName.set(peer.name, peer);
    }
    return [...byName.values()];
  }

  /**
   * Begins to ask the others. Resolves when each has replied, or has not in time.
   * @param address the relay URL of this gateway
   */
  async start(address: string, serve: ServePeer): Promise<void> {
    this.#address = address;
    this.#serve = serve;
    const origins = (await this.#origins()) ?? [];
    await Promise.all(origins.map((origin) => this.#add(origin, true)));
    if ('dns' in this.#options.addresses) this.#resolveLater();
  }

  /** Orders all gateways for a home by rendezvous hashing: `null` is this one. Those that are silent come last. */
  ranked(id: string): (Peer | null)[] {
    const ranked = [null, ...this.members].map((peer) => ({
      peer,
      isSilent: peer !== null && this.#known.get(peer.origin)?.failingSinceMs !== null,
      score: sha256(`${peer?.name ?? this.#options.name} ${id}`),
    }));
    ranked.sort((a, b) => Number(a.isSilent) - Number(b.isSilent) || (a.score < b.score ? -1 : 1));
    return ranked.map(({ peer }) => peer);
  }

  /** Tells whether a process of this gateway, or of one that is there, has this name. */
  isThere(boot: string): boolean {
    return this.isHere(boot) || this.members.some(({ boots }) => boots.has(boot));
  }

  isHere(boot: string): boolean {
    return this.#options.boots().includes(boot);
  }

  /** @throws PeerUnreachable */
  async ask(peer: Peer, request: PeerRequest): Promise<PeerReply['said']> {
    const known = this.#known.get(peer.origin);
    if (known === undefined) throw new PeerUnreachable('it has left');
    return this.#ask(known, request);
  }

  /** Answers a message of a peer. @returns the HTTP status, and the sealed reply */
  async serve(sealed: string): Promise<{ status: number; reply: string }> {
    const { ring, name, clock, boots } = this.#options;
    const message = openPeerMessage(ring, sealed);
    // 421: also for a gateway that takes this one for the one that had the address before.
    if (message === null || (message.to !== null && message.to !== name)) {
      return { status: 421, reply: '' };
    }
    const { from, nonce, heardAtMs, request } = message;
    if (request.type === 'who') {
      if (!request.isReply) await this.#acquaint(from, request.address);
    } else if (!this.#isFresh(heardAtMs) || this.#named(from) === undefined) {
      return { status: 409, reply: '' };
    }
    const peer = this.#named(from);
    const said = peer === undefined ? null : await this.#serve(request, peer);
    const reply = { from: name, nonce, boots: boots(), atMs: clock.elapsed(), said };
    return { status: 200, reply: sealPeerMessage(ring, reply) };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#resolving?.cancel();
    for (const { timer } of this.#known.values()) timer?.cancel();
    await this.#agent.destroy();
  }

  #isFresh(heardAtMs: number): boolean {
    const agoMs = this.#options.clock.elapsed() - heardAtMs;
    return agoMs >= 0 && agoMs <= FRESH_MS;
  }

  #named(name: string): KnownPeer | undefined {
    return [...this.#known.values()].find((peer) => peer.name === name);
  }

  /** Gets to know a gateway that asked: it must not serve while this one does not know it. */
  async #acquaint(name: string, address: string): Promise<void> {
    if (name === this.#options.name || this.#named(name) !== undefined) return;
    const known = this.#known.get(address);
    if (known === undefined) await this.#add(address, false);
    else await this.#askWho(known, true);
  }

  async #add(origin: string, isConfigured: boolean): Promise<void> {
    if (this.#known.has(origin) || this.#known.size >= MAX_PEERS || this.#isClosed) return;
    const peer: KnownPeer = {
      ...{ origin, isConfigured, name: null, boots: new Set<string>(), heardAtMs: -1 },
      ...{ failingSinceMs: null, failures: 0, timer: null },
    };
    this.#known.set(origin, peer);
    // One that is not configured has just asked.
    await this.#askWho(peer, !isConfigured);
    this.#askLater(peer);
  }

  #askLater(peer: KnownPeer): void {
    const isSelf = peer.name === this.#options.name;
    if (this.#isClosed || isSelf || !this.#known.has(peer.origin)) return;
    const waitMs = Math.min(ASK_EVERY_MS * 2 ** Math.max(0, peer.failures - 1), MAX_BACKOFF_MS);
    const isUp = peer.name !== null;
    peer.timer = this.#options.clock.setTimer(isUp ? ASK_EVERY_MS : waitMs, () => {
      void this.#askWho(peer, false).then(() => this.#askLater(peer));
    });
  }

  async #askWho(peer: KnownPeer, isReply: boolean): Promise<void> {
    await this.#ask(peer, { type: 'who', address: this.#address, isReply }).catch(() => {});
  }

  async #ask(peer: KnownPeer, request: PeerRequest): Promise<PeerReply['said']> {
    const { ring, name } = this.#options;
    const nonce = randomId();
    const { heardAtMs } = peer;
    const to = request.type === 'who' ? null : peer.name;
    try {
      const { statusCode, body } = await send(new URL(PEERS_PATH, peer.origin), {
        dispatcher: this.#agent,
        method: 'POST',
        headers: { 'content-type': 'application/jose' },
        body: sealPeerMessage(ring, { to, from: name, nonce, heardAtMs, request }),
        signal: AbortSignal.timeout(REPLY_TIMEOUT_MS),
      });
      const sealed = await body.text();
      const reply = statusCode === 200 ? openPeerReply(ring, sealed) : null;
      if (reply?.nonce !== nonce) throw new PeerRefusal(statusCode);
      this.#hear(peer, reply);
      return reply.said;
    } catch (error) {
      this.#fail(peer, error);
      throw new PeerUnreachable(peer.origin, { cause: error });
    }
  }

  #hear(peer: KnownPeer, { from, boots, atMs }: PeerReply): void {
    peer.failingSinceMs = null;
    peer.failures = 0;
    peer.heardAtMs = atMs;
    peer.boots = new Set(boots);
    if (peer.name === from) return;
    const isNew = this.#named(from) === undefined && from !== this.#options.name;
    peer.name = from;
    this.#version += 1;
    if (isNew) this.#options.onUp(peer.origin);
  }

  #fail(peer: KnownPeer, error: unknown): void {
    if (this.#isClosed) return;
    const nowMs = this.#options.clock.elapsed();
    peer.failures += 1;
    // Counted from the first failure: a process that was stalled itself does not take the others for dead.
    peer.failingSinceMs ??= nowMs;
    const isOver = isGone(error) || nowMs - peer.failingSinceMs >= DEAD_AFTER_MS;
    const { name } = peer;
    if (name === null ? peer.failures !== 1 : !isOver) return;
    peer.name = null;
    if (!peer.isConfigured) this.#known.delete(peer.origin);
    // It can have two addresses.
    if (name !== null && this.#named(name) !== undefined) return;
    this.#version += 1;
    this.#options.onDown(peer.origin, error instanceof Error ? error.message : String(error));
  }

  #resolveLater(): void {
    this.#resolving = this.#options.clock.setTimer(RESOLVE_EVERY_MS, () => {
      void this.#origins().then((origins) => {
        if (origins !== null) this.#configure(origins);
        if (!this.#isClosed) this.#resolveLater();
      });
    });
  }

  #configure(origins: readonly string[]): void {
    for (const [origin, peer] of this.#known) {
      peer.isConfigured = origins.includes(origin);
      if (peer.isConfigured || peer.name !== null) continue;
      peer.timer?.cancel();
      this.#known.delete(origin);
    }
    for (const origin of origins) void this.#add(origin, true);
  }

  /** @returns `null` if the name could not be resolved */
  async #origins(): Promise<string[] | null> {
    const { addresses, clock, resolve = lookUpAll } = this.#options;
    if (!('dns' in addresses)) return addresses.map(({ origin }) => origin);
    const { host, port } = addresses.dns;
    const late = sleep(clock, RESOLVE_TIMEOUT_MS).then(() => null);
    const found = await Promise.race([resolve(host), late]).catch(() => null);
    if (found === null) return null;
    return found.map(({ address, family }) =>
      family === 6 ? `http://[${address}]:${port}` : `http://${address}:${port}`,
    );
  }
}

function lookUpAll(host: string): Promise<LookupAddress[]> {
  return lookup(host, { all: true });
}

/** The address answered, and refused the message. */
class PeerRefusal extends Error {
  readonly status: number;

  constructor(status: number) {
    super(
      status === 421
        ? 'it has other seal.keys, or is another process now'
        : `it responded with HTTP ${status}`,
    );
    this.status = status;
  }
}

/** Tells whether the gateway that was there is no longer there. */
function isGone(error: unknown): boolean {
  if (error instanceof PeerRefusal) return error.status === 421;
  return error instanceof Error && 'code' in error && error.code === 'ECONNREFUSED';
}
