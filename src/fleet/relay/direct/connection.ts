/** A connection between two replicas, kept for all retries that either of them relays to the other. */
import { inBackground } from '../../../lib/background.ts';
import { type Clock, sleep, Closing } from '../../../lib/clock.ts';
import { splitIntoPieces } from '../messages.ts';
import { FrameReader, FrameSealer, TOO_LONG, type Frame, type StampedFrame } from './frames.ts';
import type { Agreed } from './handshake.ts';

export interface ConnectionOptions {
  readonly clock: Clock;
  /** The longest text of a retry, in UTF-16 code units. */
  readonly maxTextLength: number;
  /** How long bytes can wait for the other side without progress, and a connection be unused, in ms. */
  readonly idleTimeoutMs: number;
  isInUse(): boolean;
  /** Called when the other side has shown that it has the key. */
  onOpen(): void;
  /** Called for each frame, in order; parts of a text are put together. */
  onFrame(frame: StampedFrame): void;
  /** Called once. */
  onClose(): void;
}

/** How long the other side can take to show that it has the key, in ms. */
const PROOF_TIMEOUT_MS = 2_000;

export class Connection {
  /** The process at the other end. */
  readonly peer: string;
  readonly #socket: Agreed['socket'];
  readonly #options: ConnectionOptions;
  readonly #sealer: FrameSealer;
  readonly #reader: FrameReader;
  readonly #proofTimer;
  /** The text of a retry that is not complete. */
  #parts = '';
  /** Whether that text is longer than it may be, so that what comes of it is dropped. */
  #isTooLong = false;
  /** When the last frame was written, by the clock of the other side, and when it was read, by this one. */
  #peerMs = 0;
  #readAtMs = -Infinity;

  constructor({ socket, peer, readKey, writeKey }: Agreed, options: ConnectionOptions) {
    this.peer = peer;
    this.#socket = socket;
    this.#options = options;
    this.#sealer = new FrameSealer(writeKey);
    this.#reader = new FrameReader(readKey);
    this.#proofTimer = options.clock.setTimer(PROOF_TIMEOUT_MS, () => this.destroy());
    socket.setNoDelay(true);
    socket.setKeepAlive(true, options.idleTimeoutMs);
    // Whatever is read or written counts as activity.
    socket.setTimeout(options.idleTimeoutMs, () => {
      if (socket.writableLength > 0) this.destroy();
      else if (!options.isInUse()) socket.end();
    });
    socket.on('error', () => {});
    socket.on('end', () => this.destroy());
    socket.on('close', () => {
      this.#proofTimer.cancel();
      options.onClose();
    });
    socket.on('data', (chunk: Buffer) => this.#read(chunk));
    socket.write(this.#sealer.seal(null));
  }

  get isOpen(): boolean {
    return this.#socket.writable;
  }

  /** How long ago the last frame of the other side was read, in ms. */
  get sinceReadMs(): number {
    return this.#options.clock.elapsed() - this.#readAtMs;
  }

  /** Sends a frame, the text of a retry in parts. @returns whether it has left this process */
  send(frame: Frame): Promise<boolean> {
    if (frame.kind !== 'retry') return this.#write(frame);
    const parts = [...splitIntoPieces(frame.text)];
    const text = parts.pop() ?? '';
    for (const part of parts) inBackground(this.#write({ ...frame, kind: 'part', text: part }));
    return this.#write({ ...frame, text });
  }

  /** Closes the connection when all that was sent has left this process. */
  end(): Promise<void> {
    return new Promise((resolve) => this.#socket.end(() => resolve()));
  }

  destroy(): void {
    this.#socket.destroy();
  }

  #write(frame: Frame): Promise<boolean> {
    if (!this.isOpen) return Promise.resolve(false);
    const writtenAt = Math.floor(this.#options.clock.elapsed());
    const bytes = this.#sealer.seal({ ...frame, writtenAt, readAt: this.#peerMs });
    return new Promise((resolve) => {
      this.#socket.write(bytes, (error) => resolve(error === null || error === undefined));
    });
  }

  #read(chunk: Buffer): void {
    try {
      for (const frame of this.#reader.read(chunk)) {
        if (frame !== null) {
          this.#peerMs = frame.writtenAt;
          this.#readAtMs = this.#options.clock.elapsed();
        }
        this.#receive(frame);
      }
    } catch {
      // Not from the other side, or from a version that this one does not know.
      this.destroy();
    }
  }

  #receive(frame: StampedFrame | null): void {
    if (frame === null) {
      this.#proofTimer.cancel();
      this.#options.onOpen();
    } else if (frame.kind === 'part') {
      this.#parts += this.#isTooLong ? '' : frame.text;
      if (this.#parts.length <= this.#options.maxTextLength) return;
      this.#isTooLong = true;
      this.#parts = '';
    } else if (frame.kind === 'retry') {
      this.#receiveRetry(frame);
    } else {
      this.#options.onFrame(frame);
    }
  }

  #receiveRetry(frame: StampedFrame): void {
    const text = this.#parts + frame.text;
    const isTooLong = this.#isTooLong;
    this.#parts = '';
    this.#isTooLong = false;
    if (!isTooLong) return this.#options.onFrame({ ...frame, text });
    // The connection is that of other clients' retries, too.
    inBackground(this.send({ kind: 'dropped', id: frame.id, number: TOO_LONG, text: '' }));
  }
}

/** Four pieces. */
const WINDOW_LENGTH = 512 * 1024;
/** What is read is reported when it comes to this, or after this time, in ms. */
const REPORTED_LENGTH = WINDOW_LENGTH / 8;
const REPORT_AFTER_MS = 5_000;

/** The owner's side. */
export class SendWindow {
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  #left = WINDOW_LENGTH;
  #opened = new Closing();

  /** @param timeoutMs how long the window can stay closed, in ms */
  constructor(clock: Clock, timeoutMs: number) {
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
  }

  /** Resolves when a text can be sent. @throws Error if nothing was read for too long */
  async take(length: number): Promise<void> {
    while (this.#left <= 0) {
      this.#opened = new Closing();
      await sleep(this.#clock, this.#timeoutMs, this.#opened);
      if (!this.#opened.aborted) throw new Error('the other replica reads nothing');
    }
    this.#left -= length;
  }

  /** Makes room, since the other side has read so much. */
  open(length: number): void {
    this.#left += length;
    this.#opened.abort();
  }
}

/** The side that reads: counts what the owner does not know of. */
export class ReadProgress {
  readonly #clock: Pick<Clock, 'elapsed'>;
  #length = 0;
  #reportedAtMs: number;

  constructor(clock: Pick<Clock, 'elapsed'>) {
    this.#clock = clock;
    this.#reportedAtMs = clock.elapsed();
  }

  /** Counts a text that was read. @returns what the owner should be told of; 0 for nothing yet */
  add(length: number): number {
    this.#length += length;
    const nowMs = this.#clock.elapsed();
    const isDue = this.#length >= REPORTED_LENGTH || nowMs - this.#reportedAtMs >= REPORT_AFTER_MS;
    if (!isDue) return 0;
    const report = this.#length;
    this.#length = 0;
    this.#reportedAtMs = nowMs;
    return report;
  }
}
