/** A process for tests of the command: what was printed, and signals at will. */
import { EventEmitter } from 'node:events';
import { Writable } from 'node:stream';
import type { Host, HostEvent } from '../../../src/cli/arguments.ts';

class Output extends Writable {
  text = '';
  readonly isTTY: boolean;

  constructor(isTTY: boolean) {
    super();
    this.isTTY = isTTY;
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.text += chunk.toString();
    done();
  }
}

export interface TestHost extends Host {
  readonly stdout: Output;
  readonly stderr: Output;
  emit(event: HostEvent, reason?: unknown): void;
  /** The log lines so far. */
  log(): Record<string, unknown>[];
}

export function testHost(
  options: { env?: Record<string, string>; terminal?: boolean; errors?: 'terminal' } = {},
): TestHost {
  const events = new EventEmitter();
  const stdout = new Output(options.terminal ?? false);
  const stderr = new Output(options.errors === 'terminal');
  return {
    env: options.env ?? {},
    stdout,
    stderr,
    on: (event, listener) => events.on(event, listener),
    emit: (event, reason) => void events.emit(event, reason),
    log: () =>
      stderr.text
        .split('\n')
        .filter((line) => line.startsWith('{'))
        .map((line) => JSON.parse(line) as Record<string, unknown>),
  };
}
