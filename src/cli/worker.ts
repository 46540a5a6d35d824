/** The command of a worker, which the primary runs. What it cannot say in the log, it tells the primary. */
import type { Socket } from 'node:net';
import { readConfig, type FromWorker, type ToWorker } from '../workers/messages.ts';
import { Worker } from '../workers/worker.ts';
import { inBackground } from '../lib/background.ts';
import { StartFailure } from '../lib/program.ts';
import { EXIT, exitCodeOfStart, type ExitCode } from './exit-codes.ts';
import type { Host } from './arguments.ts';
import { crashOf, logDefects, logFor } from './serve.ts';

/** The channel to the primary. */
export interface Channel {
  onMessage(listener: (message: ToWorker, socket?: Socket) => void): void;
  /** Calls the listener when the primary is gone. */
  onClose(listener: () => void): void;
  /** Resolves when the message is sent, or cannot be. */
  send(message: FromWorker): Promise<void>;
}

/** Runs a worker until the primary drains it or is gone. @returns the exit code */
export function runWorker(host: Host, channel: Channel): Promise<ExitCode> {
  for (const stream of [host.stdout, host.stderr]) stream.on('error', () => {});
  // A terminal or a supervisor can signal all processes at once. Only the primary decides what that means.
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) host.on(signal, () => {});
  let stopLogging = () => {};
  const ended = new Promise<ExitCode>((finish) => {
    channel.onClose(() => finish(EXIT.internal));
    let worker: Worker | null = null;
    channel.onMessage((message, socket) => {
      if (message.type !== 'start') return worker?.receive(message, socket);
      const config = readConfig(message.config);
      const log = logFor(config, host, message.number);
      const crash = crashOf(host, log, finish);
      stopLogging = logDefects(log);
      worker = new Worker(message, config, (text) => inBackground(channel.send(text)), { log });
      worker.run().then(
        () => finish(EXIT.ok),
        async (error: unknown) => {
          if (!(error instanceof StartFailure)) return crash(error);
          const { code, message } = error;
          await channel.send({ type: 'failed', code, message });
          finish(exitCodeOfStart(code));
        },
      );
    });
  });
  return ended.finally(() => stopLogging());
}
