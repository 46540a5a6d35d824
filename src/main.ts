/** The entry of the program. */
import { Socket } from 'node:net';
import type { ToWorker } from './workers/messages.ts';
import { EXIT, type ExitCode } from './cli/exit-codes.ts';
import type { Start } from './cli/serve.ts';
import { messageOf } from './lib/shown-text.ts';
import { growYoungGeneration } from './lib/young-generation.ts';

const start: Start = async (config, options) => {
  const gateway = await startAny(config, options);
  growYoungGeneration();
  return gateway;
};

/** Loaded only to serve, so that the other commands answer at once. */
const startAny: Start = async (config, options) => {
  const { warnOfFewFiles } = await import('./cli/open-files.ts');
  warnOfFewFiles(config, options.log);
  if (config.workers !== 1) {
    const { numberOfWorkers } = await import('./workers/number-of-workers.ts');
    const count = await numberOfWorkers(config.workers, options.log);
    const { startWorkers } = await import('./workers/primary.ts');
    if (count > 1) return startWorkers(config, count, options);
  }
  const { startGateway } = await import('./app/gateway.ts');
  return startGateway(config, options);
};

/** The primary runs this program for each worker, with a channel. Nobody else does. */
async function runAsWorker(): Promise<ExitCode> {
  const { runWorker } = await import('./cli/worker.ts');
  growYoungGeneration();
  return runWorker(process, {
    onMessage: (listener) =>
      void process.on('message', (message, handle) =>
        listener(message as ToWorker, handle instanceof Socket ? handle : undefined),
      ),
    onClose: (listener) => void process.on('disconnect', listener),
    send: (message) =>
      new Promise((done) => {
        if (process.connected) process.send?.(message, undefined, undefined, () => done());
        else done();
      }),
  });
}

async function runCommand(words: readonly string[]): Promise<ExitCode> {
  const { run } = await import('./cli/run.ts');
  return run(words, process, start);
}

/** How long the last lines of the log may take to their reader, in ms. */
const LAST_LINES_MS = 1_000;

// Without a listener, each of these would end the process with a stack. A reader that goes away, such as "head", has what it wants.
let unwritten: Error | null = null;
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') unwritten ??= error;
});
process.stderr.on('error', () => {});

const words = process.argv.slice(2);
const code = await (words[0] === 'worker' && process.send ? runAsWorker() : runCommand(words));
// Time for what is on its way to a slow reader. One that reads no more of the log cannot keep the process from ending.
await new Promise<void>((done) => process.stdout.write('', () => done()));
if (unwritten !== null) {
  process.stderr.write(`mrtr-gateway: cannot write the output: ${messageOf(unwritten)}\n`);
}
await new Promise<void>((done) => {
  process.stderr.write('', () => done());
  setTimeout(done, LAST_LINES_MS);
});
process.exit(unwritten === null ? code : EXIT.internal);
