/** A simulated server of 2026-07-28 over stdio: any process goes on with what another one has begun. */
import { below } from '../../engine/random.ts';
import { simulation } from '../../engine/simulation.ts';
import type { Running } from '../../processes/process-model.ts';
import { type Exchange, type Id, ModernRequests } from './modern-requests.ts';
import type { Changing } from './requests.ts';
import type { Json, Message, ServerOptions } from './sessions.ts';

const SLOWEST_START_MS = 600;

export class ModernStdioServers implements Changing {
  readonly #requests: ModernRequests;

  constructor(options: ServerOptions) {
    this.#requests = new ModernRequests(options);
  }

  change(): void {
    this.#requests.change();
  }

  readers(): string[] {
    return this.#requests.readers();
  }

  /** Serves the gateway that started the process. */
  serve(self: Running): void {
    const { stdin, stdout } = self;
    const open = new Map<Id, PipeExchange>();
    const write = (message: Json) => void stdout.write(`${JSON.stringify(message)}\n`);
    const receive = ({ id, method, params }: Message) => {
      if (method === 'notifications/cancelled') open.get(params?.requestId)?.close();
      if (method === undefined || id === undefined) return;
      const exchange = new PipeExchange(id, self.parent, write, () => open.delete(id));
      open.set(id, exchange);
      this.#requests.serve(method, params ?? {}, exchange);
    };
    let rest = '';
    stdin.setEncoding('utf8');
    const read = (text: unknown) => {
      const lines = `${rest}${String(text)}`.split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) receive(JSON.parse(line) as Message);
    };
    const startMs = below(`${simulation().seed}:${self.name}:start`, SLOWEST_START_MS);
    simulation().after(startMs, () => stdin.on('data', read));
    stdin.on('end', () => self.exit(0));
    self.onOver = () => {
      for (const exchange of [...open.values()]) exchange.die();
    };
  }
}

class PipeExchange implements Exchange {
  readonly id: Id;
  readonly by: string;
  /** Nobody says to a process whose it is. */
  readonly caller = 'nobody';
  readonly #write: (message: Json) => void;
  readonly #onOver: () => void;
  isDead = false;
  #isOver = false;
  #closed = () => {};

  constructor(id: Id, by: string, write: (message: Json) => void, onOver: () => void) {
    this.id = id;
    this.by = by;
    this.#write = write;
    this.#onOver = onOver;
  }

  get isClosed(): boolean {
    return this.#isOver;
  }

  onClosed(listener: () => void): void {
    this.#closed = listener;
  }

  close(): void {
    if (this.#isOver) return;
    this.#end();
    this.#closed();
  }

  die(): void {
    this.isDead = true;
    this.close();
  }

  begin(): void {}

  notify(method: string, params: Json): void {
    if (!this.#isOver) this.#write({ jsonrpc: '2.0', method, params });
  }

  reply(result: Json): void {
    if (!this.#isOver) this.#write({ jsonrpc: '2.0', id: this.id, result });
    this.#end();
  }

  refuse(_status: number, error: Json): void {
    if (!this.#isOver) this.#write({ jsonrpc: '2.0', id: this.id, error });
    this.#end();
  }

  #end(): void {
    this.#isOver = true;
    this.#onOver();
  }
}
