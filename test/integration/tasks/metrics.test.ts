/** How many tasks there are, as the operator sees it. */
import { expect, test } from 'vitest';
import { gatewayBefore } from '../../fixtures/gateways/test-gateway.ts';
import { aboutTask, callForTask } from '../../fixtures/clients/task-client.ts';
import { LegacyServer } from '../../fixtures/servers/legacy-server.ts';

// Rule promoted-20: `mrtr_gateway_tasks` counts the tasks of a route by status.
test('tasks are counted by route and status', async () => {
  const legacy = await LegacyServer.start({ tools: { work: () => new Promise(() => {}) } });
  const { gateway } = await gatewayBefore(legacy, {
    tasks: { promote: 'always' },
    admin: true,
  });
  const count = async (status: string) => {
    const text = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
    return text.match(`mrtr_gateway_tasks{route="mcp",status="${status}"} (\\d+)`)?.[1];
  };
  expect(await count('working')).toBe('0');
  const { response } = await callForTask(gateway.url, 'work');
  await callForTask(gateway.url, 'work');
  expect(await count('working')).toBe('2');
  await aboutTask(gateway.url, 'cancel', response.result.taskId);
  expect([await count('working'), await count('cancelled')]).toEqual(['1', '1']);
});
