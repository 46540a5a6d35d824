/** What the operator asks of the workers of a gateway. One of them asks the other gateways. */
import { mergeReplies, type OperatorReply, type OperatorRequest } from '../app/live/operator.ts';
import type { WorkerProcess } from './worker-process.ts';

export async function askWorkers(
  workers: readonly WorkerProcess[],
  asked: OperatorRequest,
): Promise<OperatorReply> {
  const isLook = asked.type === 'look';
  const own = mergeReplies(
    await Promise.all(workers.map((worker, at) => worker.serveOperator(asked, isLook && at === 0))),
  );
  if (isLook || own.isStopped) return own;
  return (await workers[0]?.serveOperator(asked, true)) ?? own;
}
