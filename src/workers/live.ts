/** What the workers of a gateway tell the live page, and do for it. One of them asks the other gateways. */
import type { LiveView } from '../app/live/others.ts';
import type { StopOrder } from '../ops/live/stop.ts';
import type { WorkerProcess } from './worker-process.ts';

type LiveWorker = Pick<WorkerProcess, 'number' | 'status' | 'stop'>;

export async function lookAtWorkers(workers: readonly LiveWorker[]): Promise<LiveView> {
  const views = await Promise.all(
    workers.map(async (worker, at): Promise<LiveView> => {
      const status = await worker.status(at === 0 ? 'live-everywhere' : 'live');
      return status?.live ?? { parts: [], missing: [`worker ${worker.number}`] };
    }),
  );
  return {
    parts: views.flatMap(({ parts }) => parts),
    missing: views.flatMap(({ missing }) => missing),
  };
}

/** Has a call cancelled, wherever it waits. */
export async function stopAtWorkers(
  workers: readonly LiveWorker[],
  order: StopOrder,
): Promise<boolean> {
  const asked = await Promise.all(workers.map((worker) => worker.stop(order, false)));
  return asked.includes(true) || ((await workers[0]?.stop(order, true)) ?? false);
}
