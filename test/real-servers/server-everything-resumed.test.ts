/** The reference server takes the resumption of a stream and sends nothing new on it. Parked calls still complete. */
import { expect, test } from 'vitest';
import { answersOf, text } from '../fixtures/gateways/replica-testbed.ts';
import { GatewayProcess } from '../fixtures/gateways/gateway-process.ts';
import { callTool } from '../fixtures/clients/modern-client.ts';
import { startEverything } from '../fixtures/processes.ts';
import { Severable } from '../fixtures/network/flaky-proxy.ts';
import { stopAfterTest } from '../fixtures/stop-after-test.ts';

const TOOL = 'trigger-elicitation-request';
/** Not roots, which the server would ask for by itself. */
const FORMS = { capabilities: { elicitation: { form: {} } } };
const THANKS = '✅ User provided the requested information!';

async function everything(): Promise<{ readonly url: string; readonly way: Severable }> {
  const server = await startEverything('streamableHttp');
  stopAfterTest(() => server.stop());
  const way = await Severable.to({ host: '127.0.0.1', port: server.port });
  stopAfterTest(() => way.stop());
  return { url: `http://127.0.0.1:${way.port}/mcp`, way };
}

async function gateway(upstream: string): Promise<GatewayProcess> {
  const started = await GatewayProcess.start({ upstream });
  stopAfterTest(() => started.kill());
  return started;
}

test('a call whose owner is killed while it is parked completes at another replica', async () => {
  const { url } = await everything();
  const [one, other] = await Promise.all([gateway(url), gateway(url)]);
  const asked = await callTool(one.url, TOOL, {}, FORMS);
  await one.kill();
  const done = await callTool(other.url, TOOL, answersOf(asked, 'Ada'), FORMS);
  expect(text(done)).toBe(THANKS);
  expect(await other.recoveries()).toEqual(['reattach']);
});

test(
  'a call completes although every connection to the server was cut while it was parked',
  { tags: ['long'] },
  async () => {
    const { url, way } = await everything();
    const one = await gateway(url);
    const asked = await callTool(one.url, TOOL, {}, FORMS);
    way.mend();
    const done = await callTool(one.url, TOOL, answersOf(asked, 'Ada'), FORMS);
    expect(text(done)).toBe(THANKS);
    expect(await one.recoveries()).toEqual(['here']);
  },
);
