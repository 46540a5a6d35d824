/** A Redis in the simulation: a store that speaks RESP on the simulated network, and what can go wrong with it. */
import net, { type Socket } from 'node:net';
import { below } from '../engine/random.ts';
import { simulation } from '../engine/simulation.ts';
import { network } from '../network/tcp-model.ts';
import { encode, RespParser } from './resp.ts';
import { Store } from './store.ts';

const SECOND_MS = 1_000;
const CLAIM = /:(claim|holder)$/;
const POISON_ONE_IN = 2;

export class RedisModel {
  readonly store: Store;
  readonly #name: string;
  readonly #sockets = new Set<Socket>();
  /** How long each command takes. */
  slowMs = 0;
  /** Whether it does what it is asked, and says nothing. */
  losesReplies = false;
  /** Reads that wait for a message. */
  readonly #readers = new Set<() => void>();

  /** Listens at `port`, as the process that calls it. */
  constructor(port: number, name: string) {
    this.#name = name;
    this.store = new Store(() => simulation().wallMs(name));
    net.createServer((socket) => void this.#serve(socket)).listen(port, '127.0.0.1');
  }

  /** It ends, with its connections, or is there again. */
  setAway(isAway: boolean): void {
    network().links.refuse(this.#name, isAway);
    if (isAway) this.cutConnections();
  }

  cutConnections(): void {
    simulation().as(this.#name, () => {
      for (const socket of this.#sockets) socket.destroy();
    });
  }

  /** Puts garbage in the place of what it keeps. */
  poison(why: string): void {
    for (const key of this.store.keys) {
      const kind = below(`${why}:${key}`, 2 * POISON_ONE_IN);
      if (kind === 0) this.store.poison(key, Buffer.from('{"v":1,"fencingToken":1,"owner":'));
      if (kind === 1) this.store.poison(key, [Buffer.from('garbage')]);
    }
  }

  async #serve(socket: Socket): Promise<void> {
    this.#sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => this.#sockets.delete(socket));
    const parser = new RespParser();
    const waiting: Buffer[][] = [];
    let isBusy = false;
    // One command after the other: a read that waits holds up what comes after it on its connection.
    socket.on('data', (bytes) => {
      waiting.push(...parser.read(bytes));
      if (isBusy) return;
      isBusy = true;
      void this.#answer(socket, waiting).finally(() => (isBusy = false));
    });
  }

  async #answer(socket: Socket, waiting: Buffer[][]): Promise<void> {
    for (let words = waiting.shift(); words !== undefined; words = waiting.shift()) {
      if (this.slowMs > 0) await simulation().sleep(this.slowMs);
      const reply = await this.#reply(words, socket);
      if (socket.destroyed) return;
      if (this.losesReplies) return void socket.destroy();
      socket.write(encode(reply));
    }
  }

  async #reply(words: Buffer[], socket: Socket) {
    const untilMs = simulation().nowMs + Number(words.at(-1)) * SECOND_MS;
    for (;;) {
      const reply = this.store.run(words);
      if (reply !== undefined) {
        this.#tell(words, socket);
        return reply;
      }
      if (simulation().nowMs >= untilMs || socket.destroyed) return '*-1';
      await this.#written(untilMs);
    }
  }

  /** Waits until something was written, but not longer than that. */
  #written(untilMs: number): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        this.#readers.delete(wake);
        resolve();
      };
      this.#readers.add(wake);
      simulation().at(untilMs, wake);
    });
  }

  /** Some of what it does is a moment at which faults strike. */
  #tell([name, first, , third]: Buffer[], { remotePort }: Socket): void {
    for (const wake of [...this.#readers]) wake();
    const by = network().ownerOf(remotePort);
    if (String(name) === 'eval' && CLAIM.test(String(third))) simulation().onMoment('claimed', by);
    if (String(name) === 'set' && String(first).endsWith(':lease'))
      simulation().onMoment('renewed', by);
  }
}
