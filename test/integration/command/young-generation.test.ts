/** The memory of a process under load: V8 would let the young generation of the heap grow further than calls need. */
import { expect, test } from 'vitest';
import { modernBody, modernHeaders } from '../../fixtures/clients/modern-client.ts';
import { GatewayProcess } from '../../fixtures/gateways/gateway-process.ts';
import { countingServer } from '../../fixtures/servers/counting-server.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const AT_ONCE = 32;
const CALLS = 2_000;
/** Lives in the young generation while its call runs. */
const TEXT = 'x'.repeat(20_000);
const MIB = 2 ** 20;

async function bytesAfterLoad(nodeOptions: string): Promise<number> {
  const { server } = await countingServer();
  const gateway = await GatewayProcess.start({
    upstream: server.url,
    config: { identity: { source: 'header', header: 'x-user' } },
    relay: false,
    env: { NODE_OPTIONS: nodeOptions },
  });
  stopAfterTest(() => gateway.kill());
  const params = { name: 'count', arguments: { text: TEXT } };
  const headers = { ...modernHeaders('tools/call', params), 'x-user': 'ada' };
  let left = CALLS;
  const caller = async () => {
    while (left-- > 0) {
      const body = JSON.stringify(modernBody('tools/call', params));
      const response = await fetch(gateway.url, { method: 'POST', headers, body });
      expect(await response.json()).toMatchObject({ result: { resultType: 'complete' } });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, caller));
  const metrics = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
  return Number(/^nodejs_heap_space_size_total_bytes\{space="new"\} (\d+)$/m.exec(metrics)?.[1]);
}

test('the young generation grows under load, to 32 MiB', async () => {
  const bytes = await bytesAfterLoad('');
  expect(bytes).toBeGreaterThan(8 * MIB);
  expect(bytes).toBeLessThanOrEqual(32 * MIB);
});

test('NODE_OPTIONS that set its size are left to the operator', async () => {
  expect(await bytesAfterLoad('--max-semi-space-size=32')).toBe(64 * MIB);
});
