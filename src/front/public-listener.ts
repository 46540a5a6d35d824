/** The public listener: the connections of clients. What serves their requests is replaced by a reload (`public-app.ts`). */
import { lookup } from 'node:dns/promises';
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo, DropArgument, Socket } from 'node:net';
import { ClientConnections, type ClientTimeouts } from '../edge/http/connection.ts';
import { sleep, type Clock } from '../lib/clock.ts';
import { Members } from '../lib/containers.ts';
import type { ListenAddress } from '../lib/address.ts';
import { listenAt, type ListenOptions } from '../lib/listen.ts';

/** What the process says to connections, and hears of them. */
export interface ConnectionPolicy {
  /** Returns how many this process can have now. */
  max(): number;
  /** Called with 1 for each connection, and with -1 when it ends. */
  counted(change: 1 | -1): void;
  /** Called for a connection beyond the limit. */
  refused(client: string | undefined): void;
  /** Called with a request whose response is cut, since its client reads nothing of it. */
  stalled(request: IncomingMessage): void;
}

/** How long a client that has just connected can take to send its request when the process stops, in ms. */
const LAST_REQUESTS_MS = 250;
const POLL_MS = 10;

export class PublicListener {
  readonly connections: ClientConnections;
  readonly #timeouts: ClientTimeouts;
  readonly #policy: ConnectionPolicy;
  /** One for each address. */
  readonly #servers: Server[] = [];
  #count = 0;
  #serve: RequestListener = (_request, response) => void response.writeHead(503).end();
  readonly #open = new Members<ServerResponse>();
  /** Connections that have not brought a request. */
  readonly #silent = new Set<Socket>();
  #isStopping = false;

  constructor(timeouts: ClientTimeouts, policy: ConnectionPolicy) {
    this.connections = new ClientConnections(timeouts.writeStallMs, policy.stalled);
    this.#timeouts = timeouts;
    this.#policy = policy;
  }

  /** Has all requests served by this listener from here on. */
  serve(listener: RequestListener): void {
    this.#serve = listener;
  }

  /**
   * Listens on all addresses of `localhost`, or else on the one that is given.
   * @param addressesOf finds the addresses of `localhost`
   * @returns its origin
   * @throws StartFailure if it cannot listen on the first address
   */
  async listen(
    at: ListenAddress,
    options: ListenOptions = {},
    addressesOf = allAddressesOf,
  ): Promise<string> {
    const [first = at.host, ...others] = at.host === 'localhost' ? await addressesOf(at.host) : [];
    const server = this.#createServer();
    const origin = await listenAt(server, at, '--listen HOST:PORT', { ...options, host: first });
    this.#servers.push(server);
    const { port } = server.address() as AddressInfo;
    for (const host of others) await this.#listenToo({ host, port }, options);
    return origin;
  }

  /** Has each connection closed after its response, so that clients connect to another process. */
  stopKeepingConnections(): void {
    this.#isStopping = true;
    for (const response of this.#open) response.shouldKeepAlive = false;
  }

  /**
   * Takes no more connections, and serves the requests that those bring which were just opened: their clients could not know
   * whether they have acted. Resolves when that is done, or after a moment.
   */
  async serveLast(clock: Clock): Promise<void> {
    for (const server of this.#servers) server.close();
    const untilMs = clock.elapsed() + LAST_REQUESTS_MS;
    const isBusy = () => this.#silent.size > 0 || [...this.#open].length > 0;
    while (isBusy() && clock.elapsed() < untilMs) await sleep(clock, POLL_MS);
  }

  /** Closes all connections. */
  async close(): Promise<void> {
    const closing = this.#servers.splice(0).map(async (server) => {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    });
    await Promise.all(closing);
  }

  /** Listens on a further address if it can: a machine can have a name for an address that it does not have. */
  async #listenToo(at: ListenAddress, options: ListenOptions): Promise<void> {
    const server = this.#createServer();
    try {
      await listenAt(server, at, '--listen HOST:PORT', options);
    } catch {
      return;
    }
    this.#servers.push(server);
  }

  /** Creates a server, with all limits and defences. */
  #createServer(): Server {
    const timeouts = this.#timeouts;
    const server = createServer({
      headersTimeout: timeouts.headMs,
      requestTimeout: timeouts.requestMs,
      keepAliveTimeout: timeouts.idleMs,
      connectionsCheckingInterval: timeouts.checkEveryMs,
      // The guard checks it, and responds in the gateway's own form.
      requireHostHeader: false,
    });
    this.#limitConnections(server);
    this.connections.attach(server, (request, response) => {
      this.#silent.delete(request.socket);
      const place = this.#open.add(response);
      response.on('close', () => place.leave());
      if (this.#isStopping) response.shouldKeepAlive = false;
      this.#serve(request, response);
    });
    return server;
  }

  #limitConnections(server: Server): void {
    const policy = this.#policy;
    let own = 0;
    // Node.js reads it for each new connection, and compares it with those of this server.
    Object.defineProperty(server, 'maxConnections', {
      get: () => Math.max(0, policy.max() - (this.#count - own)),
    });
    // The client sees that the connection is closed, and nothing else.
    server.on('drop', (dropped: DropArgument | undefined) =>
      policy.refused(dropped?.remoteAddress),
    );
    const count = (change: 1 | -1) => {
      own += change;
      this.#count += change;
      policy.counted(change);
    };
    server.on('connection', (socket) => {
      count(1);
      this.#silent.add(socket);
      socket.once('close', () => {
        count(-1);
        this.#silent.delete(socket);
      });
    });
  }
}

async function allAddressesOf(host: string): Promise<string[]> {
  const found = await lookup(host, { all: true });
  return found.map(({ address }) => address);
}
