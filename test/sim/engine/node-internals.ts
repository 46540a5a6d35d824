/**
 * Every internal of Node.js that the simulation uses, in one place, with its type. An update that moves one fails here, by
 * its name. Needs `node --expose-internals`.
 */
import { createRequire } from 'node:module';

/** A handle of TCP, as `net` uses it; `onread` and `onconnection` are set by `net`. */
export interface Handle {
  onread(bytes?: ArrayBuffer): void;
  onconnection(status: number, handle: Handle): void;
}

/** All timers of one length, in a ring. */
interface TimerList {
  readonly expiry: number;
  readonly msecs: number;
  readonly _idlePrev: NodeJS.Timeout | TimerList | null;
}

interface Internals {
  readonly timers: {
    getLibuvNow: () => number;
    scheduleTimer: (ms: number) => void;
    toggleTimerRef: (isOn: boolean) => void;
    readonly immediateInfo: Uint32Array;
  };
  readonly timerLists: {
    readonly timerListQueue: { peek(): TimerList | undefined; shift(): void };
    readonly timerListMap: Record<number, TimerList>;
    readonly immediateInfoFields: { readonly kCount: number };
    getTimerCallbacks(runNextTicks: () => void): {
      processTimers(now: number): number;
      processImmediate(): void;
    };
  };
  readonly tcp: {
    readonly TCP: {
      new (type: number): Handle;
      readonly prototype: Record<string, unknown> & { close(callback?: () => void): void };
    };
    readonly constants: { readonly SOCKET: number };
  };
  readonly streams: Record<
    'kReadBytesOrError' | 'kArrayBufferOffset' | 'kBytesWritten' | 'kLastWriteWasAsync',
    number
  > & { readonly streamBaseState: Int32Array };
  readonly codes: Record<
    | 'UV_EOF'
    | 'UV_ECONNRESET'
    | 'UV_ECONNREFUSED'
    | 'UV_EADDRINUSE'
    | 'UV_EPIPE'
    | 'UV_ECANCELED'
    | 'UV_EINVAL'
    | 'UV_ENOTCONN',
    number
  >;
  /** Where a handle has its socket or server. */
  readonly asyncHooks: { readonly symbols: { readonly owner_symbol: symbol } };
  /** The timers of undici, which it keeps for the whole process. */
  readonly undiciTimers: { reset(): void };
  runNextTicks(): void;
}

/** What must be there: a part, and the names in it. */
const NAMES: Readonly<Record<string, readonly string[]>> = {
  timers: ['getLibuvNow', 'scheduleTimer', 'toggleTimerRef', 'immediateInfo'],
  timerLists: ['timerListQueue', 'timerListMap', 'immediateInfoFields', 'getTimerCallbacks'],
  asyncHooks: ['symbols'],
  undiciTimers: ['reset'],
  tcp: ['TCP', 'constants'],
  streams: [
    'streamBaseState',
    'kReadBytesOrError',
    'kArrayBufferOffset',
    'kBytesWritten',
    'kLastWriteWasAsync',
  ],
  codes: [
    'UV_EOF',
    'UV_ECONNRESET',
    'UV_ECONNREFUSED',
    'UV_EADDRINUSE',
    'UV_EPIPE',
    'UV_ECANCELED',
  ],
};

function load(): Internals {
  const require = createRequire(import.meta.url);
  const { internalBinding } = require('internal/test/binding') as {
    internalBinding(name: string): unknown;
  };
  const parts: Record<string, unknown> = {
    timers: internalBinding('timers'),
    timerLists: require('internal/timers'),
    tcp: internalBinding('tcp_wrap'),
    streams: internalBinding('stream_wrap'),
    codes: internalBinding('uv'),
    asyncHooks: require('internal/async_hooks'),
    undiciTimers: require('undici/lib/util/timers.js'),
    runNextTicks: (process as unknown as { _tickCallback?: unknown })._tickCallback,
  };
  if (typeof parts['runNextTicks'] !== 'function') throw new Error(moved('process._tickCallback'));
  for (const [part, names] of Object.entries(NAMES)) {
    for (const name of names) {
      if ((parts[part] as Record<string, unknown>)[name] === undefined)
        throw new Error(moved(`${part}.${name}`));
    }
  }
  return parts as unknown as Internals;
}

function moved(name: string): string {
  return `Node.js ${process.version} has no internal ${name}: the simulation must follow it`;
}

export const internals: Internals = load();
