/**
 * Every internal of Node.js that the simulation uses, in one place, with its type. An update that moves one fails here, by
 * its name. Needs `node --expose-internals`.
 */
import type { AsyncLocalStorage } from 'node:async_hooks';
import { createRequire } from 'node:module';

const ASYNC_FRAME = 'kAsyncContextFrame';

/** A handle of TCP, as `net` uses it; `onread` and `onconnection` are set by `net`. */
export interface Handle {
  onread(bytes?: ArrayBuffer): void;
  onconnection(status: number, handle: Handle): void;
}

/** All timers of one length, in a ring. */
export interface TimerList {
  readonly expiry: number;
  readonly msecs: number;
  readonly _idlePrev: NodeTimer | TimerList | null;
}

/** A handle of a child process, as `node:child_process` uses it; `onexit` is set by that. */
export interface ProcessHandle {
  pid: number;
  onexit(code: number, signal: string | null): void;
}

/** What a child process gets for each of its files. */
export interface ChildFile {
  readonly type: string;
  /** Of a pipe: the end of its parent. */
  readonly handle?: Handle;
  readonly ipc?: boolean;
}

export interface NodeTimer {
  readonly _idleStart: number;
  readonly _idlePrev: NodeTimer | TimerList | null;
  /** Falsy once it has fired and is in no list. */
  readonly _idleNext: unknown;
  readonly _timerArgs: unknown[] | undefined;
  _repeat: number | null;
  _onTimeout: ((this: unknown, ...args: unknown[]) => void) | null | undefined;
}

export interface FastTimer {
  readonly _state: number;
}

/** What `AsyncLocalStorage` has where a timer was started. */
interface AsyncFrame {
  get(storage: unknown): unknown;
}

interface ConnectionsList {
  all(): HttpParser[];
  idle(): HttpParser[];
}

export interface HttpParser {
  readonly socket?: { readonly remotePort?: number } | null;
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
    readonly constants: { readonly SOCKET: number; readonly UV_TCP_REUSEPORT: number };
  };
  readonly pipes: { readonly Pipe: { readonly prototype: Record<string, unknown> } };
  readonly processes: { readonly Process: { readonly prototype: Record<string, unknown> } };
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
    | 'UV_ENOTCONN'
    | 'UV_ESRCH',
    number
  >;
  /** The parsers of a server, in the order of their addresses if they are idle. */
  readonly http: { readonly ConnectionsList: { readonly prototype: ConnectionsList } };
  /** Where a handle has its socket or server. */
  readonly asyncHooks: { readonly symbols: { readonly owner_symbol: symbol } };
  /** The timers of undici, which it keeps for the whole process. */
  readonly undiciTimers: {
    reset(): void;
    setFastTimeout(callback: (arg: unknown) => void, delayMs: number, arg: unknown): FastTimer;
  };
  /** Where a timer has what `AsyncLocalStorage` had. */
  readonly asyncFrame: symbol;
  runNextTicks(): void;
}

/** What `process.kill` calls. @returns 0 or the code of an error */
type Kill = (pid: number, signal: number) => number;

export const hostProcess = process as unknown as { _kill: Kill; readonly _tickCallback: unknown };

const NAMES_OF_TIMERS = [
  '_idleStart',
  '_idlePrev',
  '_idleNext',
  '_onTimeout',
  '_timerArgs',
  '_repeat',
] as const;

/** What must be there: a part, and the names in it. */
const NAMES: Readonly<Record<string, readonly string[]>> = {
  timers: ['getLibuvNow', 'scheduleTimer', 'toggleTimerRef', 'immediateInfo'],
  timerLists: ['timerListQueue', 'timerListMap', 'immediateInfoFields', 'getTimerCallbacks'],
  asyncHooks: ['symbols'],
  http: ['ConnectionsList'],
  undiciTimers: ['reset', 'setFastTimeout'],
  tcp: ['TCP', 'constants'],
  pipes: ['Pipe'],
  processes: ['Process'],
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
    'UV_ESRCH',
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
    pipes: internalBinding('pipe_wrap'),
    processes: internalBinding('process_wrap'),
    streams: internalBinding('stream_wrap'),
    codes: internalBinding('uv'),
    http: internalBinding('http_parser'),
    asyncHooks: require('internal/async_hooks'),
    undiciTimers: require('undici/lib/util/timers.js'),
    asyncFrame: asyncFrameSymbol(),
    runNextTicks: hostProcess._tickCallback,
  };
  if (typeof parts['runNextTicks'] !== 'function') throw new Error(moved('process._tickCallback'));
  if (typeof hostProcess._kill !== 'function') throw new Error(moved('process._kill'));
  for (const [part, names] of Object.entries(NAMES)) {
    for (const name of names) {
      if ((parts[part] as Record<string, unknown>)[name] === undefined)
        throw new Error(moved(`${part}.${name}`));
    }
  }
  return parts as unknown as Internals;
}

/** What of `storage` was there where a timer was started. */
export function storedFor(
  timer: NodeTimer,
  storage: AsyncLocalStorage<string>,
): string | undefined {
  const frame = (timer as unknown as Record<symbol, AsyncFrame | undefined>)[internals.asyncFrame];
  return frame?.get(storage) as string | undefined;
}

/** What a timer has, and where it has what `AsyncLocalStorage` had. */
function asyncFrameSymbol(): symbol {
  const timer = setTimeout(() => {}, 1);
  clearTimeout(timer);
  for (const name of NAMES_OF_TIMERS) {
    if (!(name in timer)) throw new Error(moved(`Timeout.${name}`));
  }
  const found = Object.getOwnPropertySymbols(timer).find(
    ({ description }) => description === ASYNC_FRAME,
  );
  if (found === undefined) throw new Error(moved(`Timeout[${ASYNC_FRAME}]`));
  return found;
}

function moved(name: string): string {
  return `Node.js ${process.version} has no internal ${name}: the simulation must follow it`;
}

/** The timer of undici is told from others by the name of its callback. */
export const TICK_OF_UNDICI = 'onTick';

function checkTimersOfUndici({ timerLists, undiciTimers }: Internals): void {
  undiciTimers.reset();
  const timer = undiciTimers.setFastTimeout(() => {}, 2_000, null);
  if (timer._state === undefined) throw new Error(moved('FastTimer._state of undici'));
  const names = Object.values(timerLists.timerListMap).map(
    ({ _idlePrev }) => (_idlePrev as NodeTimer | null)?._onTimeout?.name,
  );
  undiciTimers.reset();
  if (!names.includes(TICK_OF_UNDICI)) throw new Error(moved(`${TICK_OF_UNDICI} of undici`));
}

export const internals: Internals = load();
checkTimersOfUndici(internals);
