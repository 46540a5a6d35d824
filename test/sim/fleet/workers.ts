/** Workers of a gateway in the simulation: what a forked process runs there. */
import type { Log } from '../../../src/ops/log.ts';
import type { Clock } from '../../../src/lib/clock.ts';
import { readConfig, type ToWorker } from '../../../src/workers/messages.ts';
import { Worker } from '../../../src/workers/worker.ts';
import { StartFailure } from '../../../src/lib/program.ts';
import { simulation } from '../engine/simulation.ts';
import type { Forked } from '../processes/fork-model.ts';

const EXIT = { ok: 0, internal: 1, failed: 2 } as const;

/** As the command of a worker does, with another log and clock: see `runWorker`. */
export function runWorker(self: Forked, log: Log, clock: Clock): void {
  const { exit, send } = self;
  let worker: Worker | null = null;
  self.onClose(() => exit(EXIT.internal));
  self.onMessage((received, socket) => {
    const message = received as ToWorker;
    if (message.type !== 'start') return worker?.receive(message, socket);
    worker = new Worker(message, readConfig(message.config), send, { log, clock });
    worker.run().then(
      () => exit(EXIT.ok),
      (error: unknown) => {
        if (!(error instanceof StartFailure)) return simulation().crash(self.name, error);
        send({ type: 'failed', code: error.code, message: error.message });
        exit(EXIT.failed);
      },
    );
  });
}
