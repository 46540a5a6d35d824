/** The end of a task whose call is not at the gateway: its server keeps the call, and has to be told. */
import { describe, expect, test } from 'vitest';
import { gatewayBefore } from '../../fixtures/gateways/test-gateway.ts';
import { aboutTask, callForTask, untilTask } from '../../fixtures/clients/task-client.ts';
import {
  askName,
  LegacyServer,
  type LegacyServerOptions,
} from '../../fixtures/servers/legacy-server.ts';

const KEY = { kid: 'test', key: Buffer.alloc(32, 7).toString('base64url') };
const TASKS = { ask: { taskSupport: 'required' } } as const;

/** A task that asks, and whose stream the gateway has released. */
async function releasedTask(options: LegacyServerOptions, ttlMs = 60_000) {
  const legacy = await LegacyServer.start({
    tools: { ask: async (call) => askName(call) },
    ...options,
  });
  const { gateway } = await gatewayBefore(legacy, {
    tasks: { promote: 'interactive', ttlMs },
    parking: { release: 'when-resumable' },
    seal: { audience: 'test', keys: [KEY] },
  });
  const { response } = await callForTask(gateway.url, 'ask');
  const { taskId } = response.result;
  return { legacy, gateway, url: gateway.url, taskId };
}

describe.each([
  ['keeps events', { keepsEvents: true }, 'notifications/cancelled'],
  ['runs it as a task', { tasks: TASKS }, 'tasks/cancel'],
] as const)('a released call whose server %s', (_, server, cancellation) => {
  // Rule promoted-6.
  test('is cancelled at its server with its task', async () => {
    const { legacy, gateway, url, taskId } = await releasedTask(server);
    await untilTask(url, taskId, ['input_required']);
    await gateway.log.saw('call.moved');
    const cancelled = await aboutTask(url, 'cancel', taskId);
    expect(cancelled.response.result).toEqual({ resultType: 'complete' });
    expect((await aboutTask(url, 'get', taskId)).response.result.status).toBe('cancelled');
    await legacy.saw(cancellation);
  });
});

// Rule promoted-6.
test('a released call is cancelled at its server when the time of its task is over', async () => {
  const { legacy, url, taskId } = await releasedTask({ keepsEvents: true }, 1_500);
  await untilTask(url, taskId, ['input_required']);
  await legacy.saw('notifications/cancelled');
  const { response } = await aboutTask(url, 'get', taskId);
  expect(response.error).toMatchObject({ data: { reason: 'unknown_task' } });
});
