/**
 * What gateways without Redis say to each other about homes: one sealed request and one sealed reply over HTTP. A message is
 * for one gateway, and is refused when its sender has not heard of that gateway for some time. So a recorded one is worth nothing.
 */
import { isJsonObject, parseJson } from '../../protocol/json.ts';
import { openBytes, sealBytes } from '../../seal/envelope.ts';
import type { KeyRing } from '../../seal/key-ring.ts';
import type { PointerOwner } from '../../seal/pointer.ts';
import type { Claim } from '../../model/directory.ts';
import type { ClaimEntry } from '../directory/claim-table.ts';

/** Where a gateway takes the messages of its peers, on its relay listener. */
export const PEERS_PATH = '/relay/peers';

export type PeerRequest =
  /** Who answers at this address? It names that of the sender; `isReply` if the other side has just asked. */
  | { readonly type: 'who'; readonly address: string; readonly isReply: boolean }
  /** To the keeper of a home: claims the home. */
  | {
      readonly type: 'claim';
      readonly id: string;
      readonly ttlMs: number;
      readonly holder: PointerOwner;
    }
  /** What do you know of this home? */
  | { readonly type: 'look'; readonly id: string }
  /** Tells what became of a home of the sender. */
  | { readonly type: 'put'; readonly id: string; readonly entry: ClaimEntry };

export interface PeerMessage {
  /** The name of the gateway; `null` in a `who`. */
  readonly to: string | null;
  readonly from: string;
  /** The reply repeats it. */
  readonly nonce: string;
  /** The time of the receiver in its last reply, in ms of its `Clock.elapsed`. */
  readonly heardAtMs: number;
  readonly request: PeerRequest;
}

export interface PeerReply {
  readonly from: string;
  readonly nonce: string;
  /** The processes of the gateway that can have homes. */
  readonly boots: readonly string[];
  /** In ms of the `Clock.elapsed` of the sender. */
  readonly atMs: number;
  /** `null` for a `who` and a `put`. */
  readonly said: ClaimSaid | LookSaid | null;
}

/** The reply to a `claim`. */
export interface ClaimSaid {
  readonly claim: Claim;
  /** What the keeper knows of the home that was claimed. */
  readonly entry: ClaimEntry | null;
}

/** The reply to a `look`. */
export interface LookSaid {
  readonly entry: ClaimEntry | null;
  /** Whether the home is at the gateway that replies. */
  readonly isHere: boolean;
}

const VERSION = 1;
/** The session of a home is sealed in at most 8 KiB. */
export const MAX_MESSAGE_BYTES = 32 * 1024;

/** Whom a message is for is in it. */
const PLACE = { audience: '', key: 'peers' };

export function sealPeerMessage(ring: KeyRing<'peers'>, message: PeerMessage | PeerReply): string {
  return sealBytes(ring, PLACE, Buffer.from(JSON.stringify({ v: VERSION, ...message })));
}

/** @returns `null` if no gateway of this deployment wrote it, or one in another version */
export function openPeerMessage(ring: KeyRing<'peers'>, sealed: string): PeerMessage | null {
  return open(ring, sealed, 'request') as PeerMessage | null;
}

export function openPeerReply(ring: KeyRing<'peers'>, sealed: string): PeerReply | null {
  return open(ring, sealed, 'said') as PeerReply | null;
}

/** What a gateway of this deployment sealed in a known version has the form of that version. */
function open(ring: KeyRing<'peers'>, sealed: string, member: 'request' | 'said'): unknown {
  try {
    const read = parseJson(openBytes(ring, PLACE, sealed, MAX_MESSAGE_BYTES).toString('utf8'));
    return isJsonObject(read) && read['v'] === VERSION && member in read ? read : null;
  } catch {
    return null;
  }
}
