/** The one relay listener of several workers, and connections that end before their worker has them. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { expect, test } from 'vitest';
import { RelayListener } from '../../../src/workers/relay-listener.ts';
import { WorkerProcess } from '../../../src/workers/worker-process.ts';
import { systemClock } from '../../../src/lib/clock.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';
import { configOf, withRoute } from '../../unit/config/problems-of.ts';

const HELLO =
  'GET /relay/instance HTTP/1.1\r\nHost: gateway\r\nConnection: Upgrade\r\nUpgrade: mrtr-relay/1\r\n' +
  'mrtr-relay-hello: hello\r\n\r\n';

/** A worker that takes no connection, as one that is busy. */
function stoppedWorker(): WorkerProcess {
  const worker = new WorkerProcess(1, configOf(withRoute()), {
    clock: systemClock,
    onCounts: () => {},
    onStore: async () => null,
    onEnd: () => {},
  });
  process.kill(worker.pid, 'SIGSTOP');
  stopAfterTest(async () => {
    worker.kill();
    void worker.ended.then(() => console.log('ended'));
    await worker.ended;
  });
  return worker;
}

/** A listener in front of the worker. */
async function listenerOf(worker: WorkerProcess) {
  const arrived: Socket[] = [];
  let notice = () => {};
  const listener = new RelayListener((arrival) => {
    arrived.push(arrival.socket);
    notice();
    return worker.pass(arrival);
  });
  const { port } = new URL(await listener.listen({ host: '127.0.0.1', port: 0 }));
  stopAfterTest(async () => listener.close());
  const connected = async () => {
    const replica = connect(Number(port), '127.0.0.1');
    stopAfterTest(async () => void replica.destroy());
    const hasArrived = new Promise<void>((resolve) => (notice = resolve));
    replica.write(HELLO);
    await hasArrived;
    return replica;
  };
  return { arrived, connected };
}

test('a replica that disconnects while its connection waits for a busy worker does no harm', async () => {
  const { arrived, connected } = await listenerOf(stoppedWorker());
  await connected();
  // It waits in this process until the worker has taken the first one.
  const second = await connected();
  const closed = new Promise((resolve) => arrived.at(-1)?.once('close', resolve));
  second.resetAndDestroy();
  expect(await closed).toBe(true);
});

test('connections that wait for a worker that ends are closed', async () => {
  const worker = stoppedWorker();
  const { connected } = await listenerOf(worker);
  // The first one is on its way to the worker, and the others wait for that.
  const waiting = [await connected(), await connected(), await connected()];
  const closed = waiting.map((replica) => once(replica.resume(), 'close'));
  worker.kill();
  expect(await Promise.all(closed)).toHaveLength(3);
});
