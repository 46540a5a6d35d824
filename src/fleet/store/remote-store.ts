/** A store that another process has, such as the primary of several workers. */
import type { Clock } from '../../lib/clock.ts';
import { DirectoryUnavailable, type ClaimsAndBytes, type Store } from '../../model/store.ts';

/** What goes through a channel that carries JSON: bytes as a text of their values. */
type Packed = string | number | boolean | null | { readonly latin1: string } | object;

/** What a process asks of the store: a method, and what it is called with. */
export interface StoreRequest {
  readonly method: keyof ClaimsAndBytes;
  readonly parameters: readonly Packed[];
}

export type StoreReply = Packed;

/** Does what a process asks, in the process that has the store. */
export async function serveStore(
  store: ClaimsAndBytes,
  { method, parameters }: StoreRequest,
): Promise<StoreReply> {
  const reply: unknown = await Reflect.apply(store[method], store, parameters.map(unpack));
  return pack(reply as Packed | Uint8Array);
}

/** How long a process waits for the store, in ms: far longer than a primary takes that responds at all. */
const REPLY_TIMEOUT_MS = 4_000;

/** The store as the process has it that asks. */
export class RemoteStore implements Store {
  readonly #clock: Clock;
  readonly #send: (request: number, asked: StoreRequest) => void;
  readonly #waiting = new Map<number, (reply: StoreReply) => void>();
  readonly up = true;
  /** A claim ends with its process. */
  readonly term = 1;
  readonly claim = this.#asking('claim');
  /** The primary does one thing after the other. */
  readonly claimAndRead: ClaimsAndBytes['claimAndRead'] = async (id, part, ttlMs) => {
    const [claim, kept] = await Promise.all([this.claim(id, ttlMs), this.read(id, part)]);
    return { claim, kept };
  };
  readonly holderOf = this.#asking('holderOf');
  readonly release = this.#asking('release');
  readonly state = this.#asking('state');
  readonly end = this.#asking('end');
  readonly read = this.#asking('read');
  readonly forget = this.#asking('forget');
  readonly isAlive = this.#asking('isAlive');
  #lastRequest = 0;

  constructor(clock: Clock, send: (request: number, asked: StoreRequest) => void) {
    this.#clock = clock;
    this.#send = send;
  }

  /** Takes the reply to a request. */
  receive(request: number, reply: StoreReply): void {
    this.#waiting.get(request)?.(reply);
  }

  /** The store does not outlive the processes that use it, nor they the store. */
  async requireComplete(): Promise<void> {}

  #asking<Method extends keyof ClaimsAndBytes>(method: Method): ClaimsAndBytes[Method] {
    const ask = (...parameters: (Packed | Uint8Array)[]) =>
      this.#ask({ method, parameters: parameters.map(pack) });
    return ask as unknown as ClaimsAndBytes[Method];
  }

  #ask(asked: StoreRequest): Promise<Packed | Uint8Array> {
    const request = (this.#lastRequest += 1);
    return new Promise((resolve, reject) => {
      const end = () => {
        timer.cancel();
        this.#waiting.delete(request);
      };
      const timer = this.#clock.setTimer(REPLY_TIMEOUT_MS, () => {
        end();
        const problem = 'the process that assigns sessions to callers does not respond';
        reject(new DirectoryUnavailable('timeout', problem));
      });
      this.#waiting.set(request, (reply) => {
        end();
        resolve(unpack(reply));
      });
      this.#send(request, asked);
    });
  }
}

function pack(value: Packed | Uint8Array): Packed {
  if (value instanceof Uint8Array) return { latin1: Buffer.from(value).toString('latin1') };
  // JSON has no other word for nothing.
  return value ?? null;
}

function unpack(value: Packed): Packed | Uint8Array {
  if (typeof value !== 'object' || value === null || !('latin1' in value)) return value;
  return Buffer.from(value.latin1, 'latin1');
}
