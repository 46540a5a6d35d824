/** HTTP as several folders use it: the framework, names of this machine, responses on their way, and how they are written. */
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyServerOptions } from 'fastify';
import { systemClock } from './clock.ts';

/** No route has a JSON schema: without this, the framework loads ajv and fast-json-stringify when it starts. */
export const WITHOUT_SCHEMAS = {
  compilersFactory: { buildValidator: refuseSchema, buildSerializer: refuseSchema },
} satisfies FastifyServerOptions['schemaController'];

function refuseSchema(): never {
  throw new Error('routes of the gateway have no JSON schemas');
}

const LOOPBACK_NAMES: readonly string[] = ['localhost', '::1'];
const LOOPBACK_IPV4 = /^(?:::ffff:)?127(?:\.\d{1,3}){3}$/;

/** Returns true for the loopback names and addresses, which only this machine can reach. An IPv6 address may be in brackets. */
export function isLoopbackHost(host: string): boolean {
  const name = host.replace(/^\[|\]$/g, '').toLowerCase();
  return LOOPBACK_NAMES.includes(name) || name.endsWith('.localhost') || LOOPBACK_IPV4.test(name);
}

/** Returns the path of a request target. Logs have no query: it can have a token in it. */
export function pathOf(target = ''): string {
  return target.split('?', 1)[0] ?? '';
}

/** Responses that have not reached their clients: a drain waits for them. */
export class OpenResponses {
  #count = 0;

  get count(): number {
    return this.#count;
  }

  /** Counts a response until its last byte is out, or the client has left. */
  add(response: ServerResponse): void {
    response.once('close', this.open());
  }

  /**
   * Counts a response.
   * @returns a function that ends the count; further calls do nothing
   */
  open(): () => void {
    let open = true;
    this.#count += 1;
    return () => {
      if (open) this.#count -= 1;
      open = false;
    };
  }
}

/** How often a connection is looked at in the time after which it counts as stalled. */
const LOOKS = 12;

/**
 * Finds connections whose peer reads nothing of what waits for it. Node.js fires a timeout only if no byte has moved since it
 * looked last, and looks at the end of each timeout: one timeout of the whole time takes up to twice as long.
 */
export class StallWatch {
  /** The timeout that sockets must have, in ms. It is also how much later than promised a stall can be found. */
  readonly lookEveryMs: number;
  readonly #stalls = new WeakMap<Socket, { looks: number; lastMs: number }>();

  /** @param afterMs how long the peer can read nothing, in ms */
  constructor(afterMs: number) {
    this.lookEveryMs = Math.ceil(afterMs / LOOKS);
  }

  /** Call it at each timeout of a socket. @returns whether bytes have waited for the whole time, and none of them moved */
  isStalled(socket: Socket): boolean {
    // A stream with nothing to send can stay silent.
    if (socket.writableLength === 0) return false;
    const now = systemClock.elapsed();
    const before = this.#stalls.get(socket);
    // Otherwise bytes moved, and the timer began again.
    const isNext = before !== undefined && now - before.lastMs < 1.5 * this.lookEveryMs;
    const looks = isNext ? before.looks + 1 : 1;
    this.#stalls.set(socket, { looks, lastMs: now });
    socket.setTimeout(this.lookEveryMs);
    return looks >= LOOKS;
  }
}

/**
 * Closes the connection of a response if its client reads nothing of it.
 * @param afterMs how long the client can read nothing, in ms
 */
export function cutWhenStalled(response: ServerResponse, afterMs: number): void {
  const stalls = new StallWatch(afterMs);
  response.setTimeout(stalls.lookEveryMs, () => {
    const { socket } = response;
    if (socket !== null && stalls.isStalled(socket)) response.destroy();
  });
}

/** The most writes that wait: the first one should not wait for many others. */
const MOST_WAITING = 32;

/**
 * Makes the writes of one turn of the event loop at its end, one right after the other. A write wakes up the process at
 * the other end of the socket if it sleeps. After a burst that process wakes up once, and finds several messages
 * (docs/adr/0045).
 */
export class WriteBurst {
  readonly #isAlone: () => boolean;
  #waiting: (() => void)[] = [];

  /** @param isAlone whether no more than one client waits for a response: then no other write would come in this turn */
  constructor(isAlone: () => boolean) {
    this.#isAlone = isAlone;
  }

  /** Whether a write should be made at once: only one client waits, and none of its writes does. */
  get isDue(): boolean {
    return this.#waiting.length === 0 && this.#isAlone();
  }

  /**
   * Makes a write: at once if it is due, else after this turn has read what arrived. Writes stay in order.
   * @param write must not throw
   */
  add(write: () => void): void {
    if (this.isDue) return write();
    const waiting = this.#waiting.push(write);
    if (waiting === 1) setImmediate(() => this.#flush());
    else if (waiting === MOST_WAITING) this.#flush();
  }

  #flush(): void {
    const writes = this.#waiting;
    this.#waiting = [];
    for (const write of writes) write();
  }
}
