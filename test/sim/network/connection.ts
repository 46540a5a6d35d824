/** One end of a connection in memory: what the kernel would keep for it. */
import { hash } from 'node:crypto';
import { internals } from '../engine/node-internals.ts';
import type { Handle } from '../engine/node-internals.ts';
import { Random } from '../engine/random.ts';
import { simulation } from '../engine/simulation.ts';
import type { Links } from './links.ts';

const { codes, streams } = internals;
/** Bytes that are on their way or unread, at most: what the buffers of two kernels hold. */
const WINDOW_BYTES = 64 * 1024;
/** One in so many messages is cut in two. */
const CUT_ONE_IN = 4;
const CALM_MS = 1;
/** After a cut, TCP waits for a while before it sends again. */
const LONGEST_BACKOFF_MS = 400;
/** What is on its way arrives even if its sender is dead. */
const NETWORK = 'network';

export interface Address {
  readonly address: string;
  readonly port: number;
}

interface Write {
  bytes: Buffer;
  readonly onSent: (status: number) => void;
}

export class Connection {
  readonly handle: Handle;
  owner: string;
  /** Its own by its ends and not by the order of events, so that a history without one call has no other noise. */
  name = '';
  local: Address | null = null;
  remote: Address | null = null;
  peer: Connection | null = null;
  isReading = false;
  isClosed = false;
  /** Of one that listens: whether others may listen at its port. */
  sharesPort = false;
  /** Whether it is a pipe: who writes to one sees at once that nobody reads it any more. */
  readonly isPipe: boolean;
  /** Whether the other end has ended: `told` when the reader knows. */
  #end: 'open' | 'ended' | 'reset' | 'told' = 'open';
  #hasShutDown = false;
  readonly #unread: Buffer[] = [];
  #heldBytes = 0;
  readonly #writes: Write[] = [];
  #onShutDown: (() => void) | null = null;
  #lastMs = 0;
  #noise: Random | null = null;
  readonly #links: Links;
  /** Who has this end now, in another process. */
  #successor: Connection | null = null;
  /** What is on its way from here, in its order. */
  readonly #onTheWay: (() => void)[] = [];
  /** How much of that should have arrived, and waits until the way is whole. */
  #overdue = 0;

  constructor(handle: Handle, owner: string, links: Links, isPipe = false) {
    this.handle = handle;
    this.owner = owner;
    this.#links = links;
    this.isPipe = isPipe;
  }

  /** When the next thing of this end arrives: never before what was sent earlier. */
  arrivalMs(): number {
    const delayMs = simulation().isCalm ? CALM_MS : 0.05 + this.#random().fraction() * 2;
    this.#lastMs = Math.max(this.#lastMs, simulation().nowMs + delayMs);
    return this.#lastMs;
  }

  /** Passes this end on to another process. Whoever has it must have read all that has come, and have nothing to write. */
  passOn(successor: Connection): void {
    const { peer, name, local, remote } = this;
    Object.assign(successor, { peer, name, local, remote });
    if (peer !== null) peer.peer = successor;
    this.peer = null;
    this.#successor = successor;
  }

  /** Breaks what comes from the other end, as if that had ended or reset the connection. */
  breakOff(end: 'reset' | 'ended'): void {
    this.#endWith(end);
  }

  /** @returns the error, or whether all is on its way (`sent`) or `onSent` says so later */
  write(bytes: Buffer, onSent: (status: number) => void): number | 'sent' | 'waits' {
    if (this.peer === null || this.#hasShutDown) return codes.UV_EPIPE;
    if (this.isPipe && this.peer.isClosed) return codes.UV_EPIPE;
    this.#writes.push({ bytes, onSent });
    this.#send();
    if (this.#writes.length > 0) return 'waits';
    return 'sent';
  }

  shutDown(onShutDown: () => void): void {
    this.#onShutDown = onShutDown;
    this.#send();
  }

  startReading(): void {
    this.isReading = true;
    this.#deliverSoon();
  }

  /** @param isReset whether the other end gets a reset in place of an end */
  close(isReset: boolean): void {
    this.isClosed = true;
    const { peer } = this;
    for (const { onSent } of this.#writes.splice(0)) {
      simulation().after(0, () => onSent(codes.UV_ECANCELED), this.owner);
    }
    if (peer === null || peer.isClosed) return;
    if (peer.isPipe) peer.#failWrites(codes.UV_EPIPE);
    const resets = !peer.isPipe && (isReset || this.#unread.length > 0);
    this.#transmit(() => peer.#endWith(resets ? 'reset' : 'ended'));
  }

  /** Nobody reads any more. */
  #failWrites(status: number): void {
    for (const { onSent } of this.#writes.splice(0)) {
      simulation().after(0, () => onSent(status), this.owner);
    }
  }

  #transmit(arrive: () => void): void {
    this.#onTheWay.push(arrive);
    simulation().at(this.arrivalMs(), () => this.#arriveNext(), NETWORK);
  }

  /** What was sent first arrives first, also after the way was cut. */
  #arriveNext(): void {
    const isCut = this.peer !== null && this.#links.isCut(this.owner, this.peer.owner);
    if (!isCut) return this.#onTheWay.shift()?.();
    this.#overdue++;
    if (this.#overdue === 1) this.#links.onWhole(() => this.#sendAgain());
  }

  #sendAgain(): void {
    if (!simulation().isCalm) {
      this.#lastMs = simulation().nowMs + this.#random().fraction() * LONGEST_BACKOFF_MS;
    }
    for (; this.#overdue > 0; this.#overdue--) {
      simulation().at(this.arrivalMs(), () => this.#arriveNext(), NETWORK);
    }
  }

  /** Sends what fits in the window, in pieces that the seed cuts. */
  #send(): void {
    const { peer } = this;
    if (peer === null || this.isClosed) return;
    for (let write = this.#writes[0]; write !== undefined; write = this.#writes[0]) {
      const freeBytes = WINDOW_BYTES - peer.#heldBytes;
      const room = Math.min(freeBytes, write.bytes.length);
      // As TCP does: else each small piece that is read makes room for one small piece, for ever.
      if (room < write.bytes.length && freeBytes < WINDOW_BYTES / 2) return;
      const size = this.#sizeOfPiece(room);
      const piece = write.bytes.subarray(0, size);
      write.bytes = write.bytes.subarray(size);
      peer.#heldBytes += size;
      this.#transmit(() => peer.#arrive(piece));
      if (write.bytes.length > 0) continue;
      this.#writes.shift();
      const { onSent } = write;
      simulation().after(0, () => onSent(this.isClosed ? codes.UV_ECANCELED : 0), this.owner);
    }
    const onShutDown = this.#onShutDown;
    if (onShutDown === null) return;
    this.#onShutDown = null;
    this.#hasShutDown = true;
    this.#transmit(() => peer.#endWith('ended'));
    simulation().after(0, onShutDown, this.owner);
  }

  #arrive(piece: Buffer): void {
    if (this.#successor !== null) return this.#successor.#arrive(piece);
    if (this.isClosed) {
      const { peer } = this;
      if (peer === null || peer.isClosed || this.isPipe) return;
      this.#transmit(() => peer.#endWith('reset'));
      return;
    }
    if (this.#end !== 'open') return;
    const digest = hash('sha256', piece, 'hex').slice(0, 12);
    simulation().log(`${this.peer?.name} ${piece.length} ${digest}`);
    this.#unread.push(piece);
    this.#deliverSoon();
  }

  #endWith(end: 'ended' | 'reset'): void {
    if (this.#successor !== null) return this.#successor.#endWith(end);
    if (this.isClosed || this.#end === 'reset') return;
    const isTold = this.#end === 'told';
    if (end === 'reset') this.#reset(isTold);
    if (isTold) return;
    this.#end = end;
    this.#deliverSoon();
  }

  /** Who reads sees a reset there, and first what came before it. */
  #reset(hasReadAll: boolean): void {
    this.#hasShutDown = true;
    if (hasReadAll) this.#failWrites(codes.UV_EPIPE);
    else if (!this.isReading) this.#failWrites(codes.UV_ECONNRESET);
  }

  #deliverSoon(): void {
    simulation().after(0, () => this.#deliver(), this.owner);
  }

  #deliver(): void {
    if (this.isClosed || !this.isReading) return;
    const piece = this.#unread.shift();
    if (piece !== undefined) {
      this.#heldBytes -= piece.length;
      this.#read(piece.length, piece);
      if (this.peer !== null) this.peer.#send();
      this.#deliverSoon();
    } else if (this.#end === 'ended' || this.#end === 'reset') {
      const code = this.#end === 'ended' ? codes.UV_EOF : codes.UV_ECONNRESET;
      this.#end = 'told';
      this.#read(code);
    }
  }

  #read(countOrError: number, piece?: Buffer): void {
    streams.streamBaseState[streams.kReadBytesOrError] = countOrError;
    streams.streamBaseState[streams.kArrayBufferOffset] = 0;
    this.handle.onread(piece === undefined ? undefined : new Uint8Array(piece).buffer);
  }

  #sizeOfPiece(room: number): number {
    if (room <= 1 || simulation().isCalm) return room;
    const random = this.#random();
    return random.below(CUT_ONE_IN) === 0 ? 1 + random.below(room - 1) : room;
  }

  #random(): Random {
    this.#noise ??= new Random(`${simulation().seed}:${this.name}`);
    return this.#noise;
  }
}
