/** Processes that the sweep starts: servers, the gateway. Each leads a process group, which ends with the sweep. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const START_MS = 60_000;
const STOP_MS = 3_000;
const KEPT_CHARACTERS = 4_000;

const GATEWAY = fileURLToPath(new URL('../bin/mrtr-gateway.js', import.meta.url));

export class Program implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #end: Promise<unknown>;
  #written = '';

  constructor(
    [command, ...args]: readonly [string, ...string[]],
    { env, cwd }: { readonly env: NodeJS.ProcessEnv; readonly cwd: string },
  ) {
    this.#child = spawn(command, args, {
      env,
      cwd,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#end = once(this.#child, 'close').catch((error: unknown) => this.#keep(String(error)));
    for (const stream of [this.#child.stdout, this.#child.stderr])
      stream?.on('data', (text: Buffer) => this.#keep(text.toString()));
    process.once('exit', this.#kill);
  }

  /** The end of what the process wrote. */
  get written(): string {
    return this.#written;
  }

  /** Resolves when a port of loopback accepts connections. */
  async listens(port: number): Promise<void> {
    const deadline = Date.now() + START_MS;
    while (!(await accepts(port))) {
      if (this.#child.exitCode !== null || Date.now() > deadline)
        throw new Error(`it does not listen on port ${port}: ${this.#written}`);
      await new Promise((next) => setTimeout(next, 100));
    }
  }

  /** @returns the exit code, or null if it does not end by itself within this time */
  async exit(ms: number): Promise<number | null> {
    await Promise.race([this.#end, delay(ms, undefined, { ref: false })]);
    return this.#child.exitCode;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#signal('SIGTERM');
    const insist = setTimeout(this.#kill, STOP_MS);
    await this.#end;
    clearTimeout(insist);
    this.#kill();
    process.off('exit', this.#kill);
  }

  readonly #kill = () => this.#signal('SIGKILL');

  #signal(signal: NodeJS.Signals): void {
    try {
      if (this.#child.pid !== undefined) process.kill(-this.#child.pid, signal);
    } catch {
      // The group is gone.
    }
  }

  #keep(text: string): void {
    this.#written = (this.#written + text).slice(-KEPT_CHARACTERS);
  }
}

/** @returns the gateway with its defaults, once it is ready, in front of what `args` names */
export async function startGateway(
  args: readonly string[],
  port: number,
  cwd: string,
): Promise<Program> {
  const gateway = new Program(
    [
      process.execPath,
      GATEWAY,
      '--listen',
      `127.0.0.1:${port}`,
      '--admin',
      `127.0.0.1:${await freePort()}`,
      ...args,
    ],
    { env: process.env, cwd },
  );
  await gateway.listens(port);
  return gateway;
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}

async function accepts(port: number): Promise<boolean> {
  for (const host of ['127.0.0.1', '::1']) {
    const socket = connect(port, host);
    const connected = await once(socket, 'connect').then(
      () => true,
      () => false,
    );
    socket.destroy();
    if (connected) return true;
  }
  return false;
}
