/** A simulated server over stdio: each session is a process, and no message names the call that it belongs to. */
import { below } from '../../engine/random.ts';
import { simulation } from '../../engine/simulation.ts';
import type { Running } from '../../processes/process-model.ts';
import type { Changing } from './requests.ts';
import { type Line, type Message, type ServerOptions, ServerSession } from './sessions.ts';

const SLOWEST_START_MS = 600;

export class StdioServers implements Changing {
  readonly #options: ServerOptions;
  readonly #sessions = new Set<ServerSession>();

  constructor(options: ServerOptions) {
    this.#options = options;
  }

  change(): void {
    for (const session of this.#sessions) session.change();
  }

  readers(): string[] {
    return [];
  }

  /** Serves the gateway that started the process. */
  serve(self: Running): void {
    const { stdin, stdout, parent } = self;
    const { traits } = this.#options;
    let isHeard = true;
    const line: Line = {
      reader: () => (isHeard ? parent : 'nobody'),
      send: (message) => void stdout.write(`${JSON.stringify(message)}\n`),
    };
    // Nobody says to a process whose it is.
    const session = new ServerSession(nameOf(self), 'nobody', line, this.#options);
    this.#sessions.add(session);
    self.onOver = () => {
      session.forget();
      this.#sessions.delete(session);
    };
    if (traits.writesLog) greet(self);
    let rest = '';
    const read = (bytes: unknown) => {
      const lines = `${rest}${String(bytes)}`.split('\n');
      rest = lines.pop() ?? '';
      for (const text of lines) receive(JSON.parse(text) as Message, session, line);
    };
    const startMs = below(`${simulation().seed}:${self.name}:start`, SLOWEST_START_MS);
    simulation().after(startMs, () => stdin.on('data', read));
    stdin.on('end', () => {
      isHeard = false;
      simulation().after(traits.lingersMs, () => self.exit(0));
    });
    if (traits.lingersMs > 0) self.on('SIGTERM', () => {});
  }
}

/** As a part of the id of a question. */
function nameOf({ name }: Running): string {
  return name.replaceAll('.', '_');
}

/** Many servers write what is no message. */
function greet({ stdout, stderr }: Running): void {
  stdout.write('Starting the server\n');
  stderr.write('a warning\n');
}

function receive(message: Message, session: ServerSession, line: Line): void {
  const { id, method } = message;
  if (method === undefined || id === undefined) return session.receive(message, line.reader());
  if (method === 'tools/call') return void session.call(message, line);
  const reply = method === 'initialize' ? { result: session.greeting() } : session.replyTo(method);
  line.send({ jsonrpc: '2.0', id, ...reply });
}
