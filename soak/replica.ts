/** One replica of the gateway: a process with a file that changes, which can be restarted on its ports. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { freePorts } from '../test/fixtures/processes.ts';
import type { Held } from './probe.ts';

const GATEWAY = fileURLToPath(new URL('../bin/mrtr-gateway.js', import.meta.url));
const PROBE = new URL('./probe.ts', import.meta.url).href;
const PATIENCE_MS = 120_000;
const POLL_MS = 100;

export class Replica {
  readonly name: string;
  readonly origin: string;
  readonly log: string;
  readonly #addresses: object;
  readonly #admin: string;
  readonly #file: string;
  #child: ChildProcess | null = null;

  private constructor(name: string, folder: string, [port = 0, admin = 0, relay = 0]: number[]) {
    this.name = name;
    this.origin = `http://127.0.0.1:${port}`;
    this.#admin = `http://127.0.0.1:${admin}`;
    this.#addresses = {
      listen: `127.0.0.1:${port}`,
      admin: `127.0.0.1:${admin}`,
      relay: { listen: `127.0.0.1:${relay}` },
    };
    this.#file = join(folder, `${name}.json`);
    this.log = join(folder, `${name}.log`);
  }

  static async create(name: string, folder: string): Promise<Replica> {
    return new Replica(name, folder, await freePorts(3));
  }

  /** Starts the process with the configuration that was written last; resolves when it is ready. */
  async start(): Promise<void> {
    const log = openSync(this.log, 'a');
    // A small young generation, so that the memory under load tells something.
    const flags = ['--max-semi-space-size=16', '--expose-gc', '--import', PROBE];
    const args = [...flags, GATEWAY, '--config', this.#file];
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', log, 'ipc'] });
    closeSync(log);
    this.#child = child;
    const end = () => child.kill('SIGKILL');
    process.once('exit', end);
    child.once('exit', () => process.off('exit', end));
    await this.#until('ready', async () => (await fetch(`${this.#admin}/readyz`)).ok);
  }

  /** Writes its configuration in one step. */
  async write(config: object): Promise<void> {
    await writeFile(`${this.#file}.next`, JSON.stringify({ ...config, ...this.#addresses }));
    await rename(`${this.#file}.next`, this.#file);
  }

  /** Has what was written loaded; resolves when it is in force. */
  async reload(): Promise<void> {
    const before = await this.#reloadedAt();
    this.#child?.kill('SIGHUP');
    await this.#until('reloaded', async () => (await this.#reloadedAt()) > before);
  }

  /** Ends the process, as a deployment does (SIGTERM) or as a crash does (SIGKILL). */
  async end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    const child = this.#child;
    if (child?.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, 'exit');
    child.kill(signal);
    await gone;
    if (signal === 'SIGTERM' && child.exitCode !== 0) {
      throw new Error(`replica ${this.name} ended with ${child.exitCode ?? child.signalCode}`);
    }
  }

  /** @param asked `least` where nobody uses the process, so that it can take its time */
  async held(asked: 'held' | 'least'): Promise<Held> {
    const child = this.#child;
    if (child === null) throw new Error(`replica ${this.name} does not run`);
    const answered = once(child, 'message', { signal: AbortSignal.timeout(PATIENCE_MS) });
    child.send(asked);
    const [{ held }] = (await answered) as [{ held: Held }];
    return held;
  }

  /** Sums the metrics whose name, with labels, begins so. */
  async #metric(name: string): Promise<number> {
    const text = await (await fetch(`${this.#admin}/metrics`)).text();
    const lines = text.split('\n').filter((line) => line.startsWith(name));
    return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
  }

  sessions(): Promise<number> {
    return this.#metric('mrtr_gateway_sessions{');
  }

  #reloadedAt(): Promise<number> {
    return this.#metric('mrtr_gateway_config_last_reload_success_timestamp_seconds');
  }

  async #until(what: string, holds: () => Promise<boolean>): Promise<void> {
    const deadline = performance.now() + PATIENCE_MS;
    while (!(await holds().catch(() => false))) {
      const end = this.#child?.exitCode ?? this.#child?.signalCode ?? null;
      if (end !== null) throw new Error(`replica ${this.name} ended with ${end}: ${this.log}`);
      if (performance.now() > deadline) {
        throw new Error(`replica ${this.name} is not ${what}: ${this.log}`);
      }
      await sleep(POLL_MS);
    }
  }
}
