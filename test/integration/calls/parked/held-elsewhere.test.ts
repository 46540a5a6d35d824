/** A server that lets one reader at a time have a call's stream, and an owner that does not release it. */
import { expect, test } from 'vitest';
import { reasonOf } from '../../../fixtures/gateways/replica-testbed.ts';
import { startTestGateway, type GatewayOverrides } from '../../../fixtures/gateways/gateway.ts';
import { advanceUntil, ManualClock } from '../../../fixtures/manual-clock.ts';
import { accept, callTool } from '../../../fixtures/clients/modern-client.ts';
import { eventStream, legacyServer } from '../../../fixtures/servers/scripted-server.ts';
import { stopAfterTest } from '../../../fixtures/stop-after-test.ts';

const FLEET: GatewayOverrides = {
  transport: 'streamable-http',
  seal: { audience: 'fleet', keys: [{ kid: 'k', key: 'A'.repeat(43) }] },
  continuation: { reattach: true, replay: { tools: ['act'], annotated: false } },
};

// Rule reattach-7.
test('retries elsewhere are told to retry, and none of them replays the call', async () => {
  const server = await legacyServer(
    (_received, response) => {
      const params = { message: 'Sure?', requestedSchema: { type: 'object', properties: {} } };
      const question = { jsonrpc: '2.0', id: 'ask', method: 'elicitation/create', params };
      eventStream(response).send(question, 'event-1');
    },
    {
      onGet: ({ headers }, response) =>
        void response.writeHead('last-event-id' in headers ? 409 : 405).end(),
    },
  );
  stopAfterTest(() => server.stop());
  const clock = new ManualClock();
  const one = await startTestGateway(server.url, { ...FLEET, clock });
  const other = await startTestGateway(server.url, { ...FLEET, clock });
  for (const gateway of [one, other]) stopAfterTest(() => gateway.close());
  const { response } = await advanceUntil(clock, callTool(one.url, 'act'));
  const { requestState } = response.result;
  const retry = { requestState, inputResponses: { ask: accept() } };
  const retries = [1, 2, 3].map(() => callTool(other.url, 'act', retry));
  await advanceUntil(
    clock,
    server.saw(({ headers }) => 'last-event-id' in headers),
  );
  expect((await advanceUntil(clock, Promise.all(retries), 10_000)).map(reasonOf)).toEqual(
    Array.from({ length: 3 }, () => 'coordination_unavailable'),
  );
  expect(server.methods().filter((method) => method === 'tools/call')).toHaveLength(1);
});
