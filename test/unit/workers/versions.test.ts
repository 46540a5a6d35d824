import { expect, test } from 'vitest';
import { VERSION } from '../../../src/lib/program.ts';
import type { WorkerStart } from '../../../src/workers/messages.ts';
import { Worker } from '../../../src/workers/worker.ts';
import { RecordedLog } from '../../fixtures/gateways/gateway.ts';
import { configOf, withRoute } from '../config/problems-of.ts';

// Rule upgrade-5: A worker of another version than its primary does not start. After five of them the gateway drains
// and ends.
test('a worker of another version than its primary does not start', async () => {
  const start: WorkerStart = {
    type: 'start',
    version: '0.0.0',
    number: 1,
    config: '',
    generatedKey: null,
    wasReady: false,
    gatewayAddress: null,
    counts: [],
  };
  const sent: unknown[] = [];
  const worker = new Worker(start, configOf(withRoute()), (message) => sent.push(message), {
    log: new RecordedLog(),
  });
  await expect(worker.run()).rejects.toMatchObject({
    code: 'other_version',
    message: `the gateway runs version 0.0.0, and version ${VERSION} is installed by now; start it again`,
  });
  expect(sent).toEqual([]);
});
