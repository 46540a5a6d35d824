/** The other gateways of `relay.peers`, which find homes without Redis. */
import type { Config } from '../../config/schema.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Log } from '../../ops/log.ts';
import { PeerClaims } from '../../replicas/peers/peer-claims.ts';
import { Peers } from '../../replicas/peers/peers.ts';
import type { SealKeys } from '../../seal/seal-keys.ts';

export interface HomePeers {
  readonly peers: Peers;
  readonly claims: PeerClaims;
  /**
   * Gets to know the others. Resolves when each has replied, or has not in time.
   * @param address the relay URL of this gateway
   */
  start(address: string): Promise<void>;
}

/** This gateway, as its peers see it. */
export interface PeerGateway {
  /** The name of its process in pointers; for a primary, one of its own. */
  readonly name: string;
  /** Returns the names of its processes that serve clients. */
  readonly boots: () => readonly string[];
}

interface PeerServices {
  readonly sealKeys: SealKeys;
  readonly clock: Clock;
  readonly log: Log;
}

/** @returns `null` if no peers are configured */
export function createPeers(
  { relay }: Config,
  { name, boots }: PeerGateway,
  { sealKeys, clock, log }: PeerServices,
): HomePeers | null {
  const addresses = relay?.peers ?? null;
  if (addresses === null) return null;
  const peers = new Peers({
    addresses,
    name,
    boots,
    ring: sealKeys.ring('peers'),
    clock,
    onUp: (peer) => log.event('peer.up', { peer }),
    onDown: (peer, problem) => log.event('peer.down', { peer, problem }),
  });
  const claims = new PeerClaims({ peers, clock });
  const start = (address: string) =>
    peers.start(address, (request, from) => claims.serve(request, from));
  return { peers, claims, start };
}
