/**
 * Which gateway has a home, without Redis. Rendezvous hashing names the keeper of a home among the gateways that are there: all
 * of them claim the home from it. The keeper can change. So one that does not know a home asks all others before it gives the
 * home to anybody. The gateway of the home copies what it keeps to two others, which goes on when it dies.
 */
import { LruMap } from '../../lib/containers.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Claim } from '../../model/directory.ts';
import type { PointerOwner } from '../../seal/pointer.ts';
import {
  ClaimTable,
  type ClaimEntry,
  type ClaimReply,
  type ClaimRequest,
} from '../directory/claim-table.ts';
import type { ClaimSaid, LookSaid, PeerReply, PeerRequest } from './peer-messages.ts';
import type { Peer, Peers } from './peers.ts';

export interface PeerClaimsOptions {
  readonly peers: Pick<Peers, 'ask' | 'members' | 'ranked' | 'isHere' | 'isThere' | 'version'>;
  readonly clock: Clock;
}

/** How many keepers are asked that do not reply. After that this gateway decides. */
const MAX_KEEPERS = 2;
/** The gateways beside that of the home which know its session. */
const COPIES = 2;
const MAX_SETTLED = 100_000;

export class PeerClaims {
  readonly #peers: PeerClaimsOptions['peers'];
  readonly #table: ClaimTable;
  /** In which version of the peers this gateway asked all of them about a home. */
  readonly #settled = new LruMap<string, number>(MAX_SETTLED);
  readonly #settling = new Map<string, Promise<void>>();

  constructor({ peers, clock }: PeerClaimsOptions) {
    this.#peers = peers;
    this.#table = new ClaimTable(clock, (boot) => !peers.isThere(boot));
  }

  /** Answers a process of this gateway. Never rejects. @param holder who asks */
  async answer(request: ClaimRequest, holder: PointerOwner): Promise<ClaimReply> {
    if (request.type === 'claim') return this.#claim(request.id, request.ttlMs, holder);
    const reply = this.#table.answer(request, holder);
    if (request.type !== 'kept') await this.#copy(request.id);
    return reply;
  }

  /** Answers another gateway. */
  async serve(request: PeerRequest, from: Peer): Promise<PeerReply['said']> {
    switch (request.type) {
      case 'who':
        return null;
      case 'claim':
        // It can have begun since it was last asked who it is.
        from.boots.add(request.holder.boot);
        return this.#grant(request.id, request.ttlMs, request.holder);
      case 'look':
        return this.#look(request.id);
      case 'put':
        if (isNewer(request.entry, this.#table.find(request.id))) {
          this.#table.set(request.id, request.entry);
        }
        return null;
    }
  }

  async #claim(id: string, ttlMs: number, holder: PointerOwner): Promise<Claim> {
    for (const keeper of this.#peers.ranked(id).slice(0, MAX_KEEPERS)) {
      if (keeper === null) break;
      const said = await this.#peers
        .ask(keeper, { type: 'claim', id, ttlMs, holder })
        .catch(() => null);
      if (said === null || !('claim' in said)) continue;
      if (said.entry !== null) this.#table.set(id, said.entry);
      return said.claim;
    }
    return (await this.#grant(id, ttlMs, holder)).claim;
  }

  /** Decides as the keeper of a home. */
  async #grant(id: string, ttlMs: number, holder: PointerOwner): Promise<ClaimSaid> {
    await this.#settle(id);
    const claim = this.#table.answer({ type: 'claim', id, ttlMs }, holder) as Claim;
    return { claim, entry: claim.type === 'claimed' ? this.#table.find(id) : null };
  }

  #look(id: string): LookSaid {
    const entry = this.#table.find(id);
    const boot = entry?.holder?.boot;
    return { entry, isHere: boot !== undefined && this.#peers.isHere(boot) };
  }

  /** Finds out what the others know of a home, unless that was done since one of them came or went. */
  #settle(id: string): Promise<void> {
    const { version } = this.#peers;
    if (this.#settled.get(id) === version && this.#table.find(id) !== null)
      return Promise.resolve();
    const settling = this.#settling.get(id) ?? this.#askAll(id, version);
    this.#settling.set(id, settling);
    return settling.finally(() => this.#settling.delete(id));
  }

  async #askAll(id: string, version: number): Promise<void> {
    const before = this.#table.find(id);
    const asked = await Promise.all(
      this.#peers.members.map(async (peer) => {
        const said = await this.#peers.ask(peer, { type: 'look', id }).catch(() => null);
        return said !== null && 'isHere' in said ? said : peer;
      }),
    );
    const said = [this.#look(id), ...asked.filter((one) => 'isHere' in one)];
    const silent = asked.filter((one) => 'boots' in one);
    const entry = agree(said, (boot) => silent.some(({ boots }) => boots.has(boot)));
    // What the gateway of the home has told meanwhile is newer than what it replied.
    const hasChanged = this.#table.find(id)?.revision !== before?.revision;
    if (entry !== null && !hasChanged) this.#table.set(id, entry);
    this.#settled.set(id, version);
  }

  /** Copies what this gateway knows of a home of its own to others, in case that it dies. */
  async #copy(id: string): Promise<void> {
    const entry = this.#table.find(id);
    if (entry === null) return;
    const others = this.#peers.ranked(id).filter((peer) => peer !== null);
    await Promise.all(
      others.slice(0, COPIES).map((peer) =>
        // What does not arrive is asked for when it is needed.
        this.#peers.ask(peer, { type: 'put', id, entry }).catch(() => null),
      ),
    );
  }
}

/**
 * Decides what counts, of what several gateways know of a home. That which has the home is right.
 * @param mayBeHolder tells whether a process can have the home although its gateway does not reply
 */
export function agree(
  said: readonly LookSaid[],
  mayBeHolder: (boot: string) => boolean,
): ClaimEntry | null {
  const known = said.flatMap(({ entry, isHere }) => (entry === null ? [] : [{ entry, isHere }]));
  known.sort((a, b) => (isNewer(a.entry, b.entry) ? -1 : 1));
  const [newest] = known;
  if (newest === undefined) return null;
  const atHome = known.find(({ isHere }) => isHere);
  if (atHome !== undefined) return atHome.entry;
  const { holder } = newest.entry;
  const isHeld = holder !== null && mayBeHolder(holder.boot);
  return { ...newest.entry, holder: isHeld ? holder : null };
}

function isNewer(entry: ClaimEntry, other: ClaimEntry | null): boolean {
  if (other === null || entry.epoch !== other.epoch) return entry.epoch > (other?.epoch ?? -1);
  return entry.revision > other.revision;
}
