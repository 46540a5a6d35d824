/**
 * What of Node.js is not the same twice, beside time and network: random numbers, the header `Date`, the observer of the
 * garbage collection. To import it is to replace them while a simulation runs, for the whole process.
 */
import crypto from 'node:crypto';
import http from 'node:http';
import { syncBuiltinESMExports } from 'node:module';
import perfHooks from 'node:perf_hooks';
import { type HttpParser, internals } from './node-internals.ts';
import type { Random } from './random.ts';
import { runningSimulation } from './simulation.ts';

const real = {
  randomFillSync: crypto.randomFillSync,
  random: Math.random,
};

function random(): Random | undefined {
  return runningSimulation()?.random;
}

function fill<View extends NodeJS.ArrayBufferView>(view: View, offset = 0, size?: number): View {
  const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
  const part = bytes.subarray(offset, size === undefined ? undefined : offset + size);
  const source = random();
  if (source === undefined) real.randomFillSync(part);
  else source.fill(part);
  return view;
}

function randomBytes(size: number, callback?: (error: null, bytes: Buffer) => void): unknown {
  const bytes = fill(Buffer.alloc(size));
  if (callback === undefined) return bytes;
  process.nextTick(callback, null, bytes);
  return undefined;
}

function randomUUID(): string {
  const hex = fill(Buffer.alloc(16)).toString('hex');
  const parts = [hex.slice(0, 8), hex.slice(8, 12), `4${hex.slice(13, 16)}`];
  return [...parts, `8${hex.slice(17, 20)}`, hex.slice(20)].join('-');
}

function randomInt(first: number, end?: number): number {
  const [from, to] = end === undefined ? [0, first] : [first, end];
  return from + Math.floor(Math.random() * (to - from));
}

/** Verifies a signature of Ed25519, of the four arguments of `SubtleCrypto`. */
function verify(
  _: unknown,
  key: crypto.webcrypto.CryptoKey,
  signature: Uint8Array,
  text: Uint8Array,
) {
  return Promise.resolve(crypto.verify(null, text, crypto.KeyObject.from(key), signature));
}

Math.random = () => random()?.fraction() ?? real.random();
Object.assign(crypto, { randomFillSync: fill, randomBytes, randomUUID, randomInt });
Object.assign(globalThis.crypto, { getRandomValues: fill, randomUUID });
// Node.js writes it from a clock of its own.
Object.defineProperty(http.OutgoingMessage.prototype, 'sendDate', { get: () => false, set() {} });
// A server that closes would end its connections in the order of addresses in memory.
const connections = internals.http.ConnectionsList.prototype;
for (const name of ['all', 'idle'] as const) {
  const list = connections[name];
  connections[name] = function () {
    const portOf = ({ socket }: HttpParser) => socket?.remotePort ?? 0;
    return list.call(this).toSorted((a, b) => portOf(a) - portOf(b));
  };
}
// The metrics of a gateway never disconnect theirs, so each gateway that was ever started would stay.
Object.assign(perfHooks, {
  PerformanceObserver: class {
    observe(): void {}
    disconnect(): void {}
  },
});
// It would verify in a thread, whose end comes when it comes. jose uses it.
Object.assign(Object.getPrototypeOf(globalThis.crypto.subtle) as object, { verify });
syncBuiltinESMExports();
