/**
 * TCP in memory: the methods of Node's own handle are replaced, so `net`, `node:http`, undici and ioredis stay as they are.
 * To import it is to replace them, for the whole process.
 */
import net from 'node:net';
import { internals } from '../engine/node-internals.ts';
import type { Handle } from '../engine/node-internals.ts';
import { below } from '../engine/random.ts';
import { ownerNow, simulation, type Simulation } from '../engine/simulation.ts';
import { type Address, Connection } from './connection.ts';
import { Links } from './links.ts';
import { placeOf } from './places.ts';

const { codes, streams, tcp } = internals;
const { owner_symbol } = internals.asyncHooks.symbols;
const methods = tcp.TCP.prototype;
const closeHandle = methods.close;
const FIRST_PORT = 20_000;

interface Request {
  oncomplete(status: number, ...more: unknown[]): void;
}

/** The network of one simulation. */
class Network {
  readonly links = new Links();
  /** Several processes can listen at one port, if each of them says so. */
  readonly listeners = new Map<number, Connection[]>();
  readonly connections = new Set<Connection>();
  /** Who has a port, or had it last. */
  readonly owners = new Map<number, string>();
  next = FIRST_PORT;
  readonly #connects = new Map<string, number>();

  /** A name for the next connection of `owner` to `port`. */
  nameOf(owner: string, port: number): string {
    const pair = `${owner}>${port}`;
    const count = (this.#connects.get(pair) ?? 0) + 1;
    this.#connects.set(pair, count);
    return `${pair}#${count}`;
  }

  /** Who has a port. */
  ownerOf(port: number | undefined): string {
    return this.owners.get(port ?? 0) ?? 'nobody';
  }

  /** How many sockets and listeners a process has. */
  handlesOf(owner: string): number {
    return [...this.connections].filter(
      (connection) => connection.owner === owner && !connection.isClosed,
    ).length;
  }

  /** Whether the other end of the connection from a port has not closed it. */
  isHeld(port: number): boolean {
    return [...this.connections].some(
      ({ local, peer }) => local?.port === port && peer?.isClosed === false,
    );
  }

  /** The connections between two places, by their ends at the first. */
  between(here: string, there: string): Connection[] {
    return [...this.connections].filter(
      ({ owner, peer }) =>
        peer !== null && placeOf(owner) === here && placeOf(peer.owner) === there,
    );
  }

  kill(owner: string): void {
    for (const connection of this.connections) {
      if (connection.owner === owner && !connection.isClosed) this.#end(connection);
    }
  }

  /** A socket that nobody destroys would keep its parser, and that everything else. */
  clear(): void {
    for (const connection of this.connections) {
      const { [owner_symbol]: socket } = connection.handle as unknown as Record<symbol, unknown>;
      if (socket instanceof net.Socket) socket.destroy();
      if (!connection.isClosed) this.#end(connection);
    }
  }

  #end(connection: Connection): void {
    this.forget(connection);
    connection.close(false);
    closeHandle.call(connection.handle);
  }

  forget(connection: Connection): void {
    const port = connection.local?.port ?? 0;
    const left = (this.listeners.get(port) ?? []).filter((listener) => listener !== connection);
    if (left.length === 0) this.listeners.delete(port);
    else this.listeners.set(port, left);
  }
}

const networks = new WeakMap<Simulation, Network>();
const connections = new WeakMap<Handle, Connection>();

/** The network of the simulation that runs. */
export function network(): Network {
  let found = networks.get(simulation());
  if (found === undefined) {
    networks.set(simulation(), (found = new Network()));
    simulation().attach(found);
  }
  return found;
}

function connectionOf(handle: Handle): Connection {
  let found = connections.get(handle);
  if (found === undefined) {
    connections.set(handle, (found = new Connection(handle, ownerNow(), network().links)));
    network().connections.add(found);
  }
  return found;
}

/**
 * Makes `near` one end of a pipe, and returns the other one. No fault of the network concerns it.
 * @param name its own
 */
export function openPipe(name: string, near: Handle, ends: { near: string; far: string }): Handle {
  const handle = new tcp.TCP(tcp.constants.SOCKET);
  const links = new Links();
  const [here, there] = [
    new Connection(near, ends.near, links, true),
    new Connection(handle, ends.far, links, true),
  ];
  Object.assign(here, { name, peer: there });
  Object.assign(there, { name: `<${name}`, peer: here });
  for (const connection of [here, there]) {
    connections.set(connection.handle, connection);
    network().connections.add(connection);
  }
  return handle;
}

/** Passes the socket of one process on to another one, which gets a socket of its own. */
export function passOn(socket: net.Socket, owner: string): net.Socket {
  const { _handle: near } = socket as net.Socket & { readonly _handle: Handle };
  return simulation().as(owner, () => {
    const handle = new tcp.TCP(tcp.constants.SOCKET);
    connectionOf(near).passOn(connectionOf(handle));
    const options = { handle, allowHalfOpen: false };
    return new net.Socket(options as unknown as net.SocketConstructorOpts);
  });
}

/** Whether a handle is one of a simulation. */
export function isSimulated(handle: Handle): boolean {
  return connections.has(handle);
}

/** When what these processes did before has arrived at the other ends of their connections. */
export function allArrivedMs(owners: ReadonlySet<string>): number {
  const own = [...network().connections].filter(({ owner }) => owners.has(owner));
  return Math.max(simulation().nowMs, ...own.map((connection) => connection.arrivalMs()));
}

function bind(this: Handle, address: string, port: number, flags: number): number {
  const connection = connectionOf(this);
  connection.local = { address, port: port === 0 ? network().next++ : port };
  connection.sharesPort = (flags & tcp.constants.UV_TCP_REUSEPORT) !== 0;
  return 0;
}

function listen(this: Handle): number {
  const connection = connectionOf(this);
  connection.local ??= { address: '0.0.0.0', port: network().next++ };
  const others = network().listeners.get(connection.local.port) ?? [];
  const all = [...others, connection];
  if (others.length > 0 && !all.every(({ sharesPort }) => sharesPort)) return codes.UV_EADDRINUSE;
  network().listeners.set(connection.local.port, all);
  network().owners.set(connection.local.port, connection.owner);
  return 0;
}

function connect(this: Handle, request: Request, address: string, port: number): number {
  const connection = connectionOf(this);
  connection.local = { address: '127.0.0.1', port: network().next++ };
  connection.remote = { address, port };
  connection.name = network().nameOf(connection.owner, port);
  network().owners.set(connection.local.port, connection.owner);
  const attempt = () => {
    if (connection.isClosed) return;
    const target = network().ownerOf(port);
    const { links } = network();
    if (links.isCut(connection.owner, target) || links.isCut(target, connection.owner)) {
      return links.onWhole(() =>
        simulation().at(connection.arrivalMs(), attempt, connection.owner),
      );
    }
    const listeners = network().listeners.get(port) ?? [];
    // The kernel chooses, and knows nothing of a process that hangs.
    const chosen = below(`${simulation().seed}:${connection.name}:listener`, listeners.length);
    const listener = listeners[chosen];
    if (listener === undefined || links.refuses(listener.owner)) {
      return request.oncomplete(codes.UV_ECONNREFUSED, this, request, false, false);
    }
    const handle = new tcp.TCP(tcp.constants.SOCKET);
    const accepted = connectionOf(handle);
    accepted.owner = listener.owner;
    accepted.name = `${listener.owner}<${connection.name}`;
    accepted.local = { address, port };
    accepted.remote = connection.local;
    accepted.peer = connection;
    connection.peer = accepted;
    let isOpen = false;
    let isRefused = false;
    const accept = () => {
      if (!listener.isClosed) return listener.handle.onconnection(0, handle);
      // The process was frozen, and stopped listening as soon as it went on.
      if (isOpen) return close(handle, true);
      isRefused = true;
      connection.peer = null;
      request.oncomplete(codes.UV_ECONNREFUSED, this, request, false, false);
    };
    const open = () => {
      if (isRefused) return;
      isOpen = true;
      request.oncomplete(0, this, request, true, true);
    };
    // A process that is not frozen has it before its client sends anything.
    simulation().after(0, accept, listener.owner);
    simulation().after(0, open, connection.owner);
  };
  simulation().at(connection.arrivalMs(), attempt, connection.owner);
  return 0;
}

function tell(out: Record<string, unknown>, address: Address | null, failure: number): number {
  if (address === null) return failure;
  Object.assign(out, address, { family: 'IPv4' });
  return 0;
}

function write(handle: Handle, request: Request, bytes: Buffer): number {
  const result = connectionOf(handle).write(Buffer.from(bytes), (status) =>
    request.oncomplete(status, handle, undefined),
  );
  // What `onSent` says is heard only if the write is said to be asynchronous.
  streams.streamBaseState[streams.kBytesWritten] = bytes.length;
  streams.streamBaseState[streams.kLastWriteWasAsync] = typeof result === 'number' ? 0 : 1;
  return typeof result === 'number' ? result : 0;
}

function writeAll(this: Handle, request: Request, chunks: unknown[], areBuffers: boolean): number {
  const parts: Buffer[] = [];
  for (let at = 0; at < chunks.length; at += areBuffers ? 1 : 2) {
    const chunk = chunks[at] as Buffer | string;
    const encoding = chunks[at + 1] as BufferEncoding;
    parts.push(typeof chunk === 'string' ? Buffer.from(chunk, encoding) : chunk);
  }
  return write(this, request, Buffer.concat(parts));
}

function close(handle: Handle, isReset: boolean, callback?: () => void): void {
  const connection = connectionOf(handle);
  const onClosed = () => callback?.call(handle);
  if (connection.isClosed || simulation().isEnding) process.nextTick(onClosed);
  else simulation().after(0, onClosed, connection.owner);
  if (connection.isClosed) return;
  network().forget(connection);
  network().connections.delete(connection);
  connection.close(isReset);
  closeHandle.call(handle);
}

function writeText(encoding: BufferEncoding) {
  return function (this: Handle, request: Request, text: string): number {
    return write(this, request, Buffer.from(text, encoding));
  };
}

const nothing = (): number => 0;

/** What handles of TCP and of pipes have. */
export const streamMethods = {
  ref: nothing,
  unref: nothing,
  hasRef: () => true,
  readStart(this: Handle) {
    connectionOf(this).startReading();
    return 0;
  },
  readStop(this: Handle) {
    connectionOf(this).isReading = false;
    return 0;
  },
  writeBuffer(this: Handle, request: Request, bytes: Buffer) {
    return write(this, request, bytes);
  },
  writeUtf8String: writeText('utf8'),
  writeLatin1String: writeText('latin1'),
  writeAsciiString: writeText('latin1'),
  writeUcs2String: writeText('utf16le'),
  writev: writeAll,
  shutdown(this: Handle, request: Request) {
    const connection = connectionOf(this);
    if (connection.peer === null) return codes.UV_ENOTCONN;
    connection.shutDown(() => request.oncomplete(0));
    return 0;
  },
  close(this: Handle, callback?: () => void) {
    close(this, false, callback);
  },
};

Object.assign(methods, streamMethods, {
  // Else the HTTP parser reads from the real handle.
  isStreamBase: undefined,
  setNoDelay: nothing,
  setKeepAlive: nothing,
  setTypeOfService: nothing,
  setBlocking: nothing,
  bind,
  bind6: bind,
  listen,
  connect,
  connect6: connect,
  getsockname(this: Handle, out: Record<string, unknown>) {
    return tell(out, connectionOf(this).local, codes.UV_EINVAL);
  },
  getpeername(this: Handle, out: Record<string, unknown>) {
    return tell(out, connectionOf(this).remote, codes.UV_ENOTCONN);
  },
  reset(this: Handle, callback?: () => void) {
    close(this, true, callback);
    return 0;
  },
});
