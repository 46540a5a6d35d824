/** How a gateway leaves when a server does not let it. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { startTestGateway } from '../../fixtures/gateways/gateway.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';
import { send } from '../../fixtures/clients/modern-client.ts';
import { ScriptedServer } from '../../fixtures/servers/scripted-server.ts';

test('a server that does not answer its handshake keeps no gateway from leaving', async () => {
  const hanging = await ScriptedServer.start(() => {});
  const clock = new ManualClock();
  const starting = startTestGateway(hanging.url, {
    transport: 'streamable-http',
    upstream: { headersTimeoutMs: 3_600_000 },
    clock,
  });
  const first = await hanging.saw(({ body }) => body?.method === 'initialize');
  clock.advance(5_000);
  const gateway = await starting;
  const asked = send(gateway.url, 'server/discover');
  await hanging.saw((received) => received.body?.method === 'initialize' && received !== first);
  clock.advance(3_000);
  const { status, response } = await asked;
  expect(status).toBe(200);
  expect(response.error).toMatchObject({ code: -32603, data: { reason: 'upstream_timeout' } });
  let left = false;
  const leaving = gateway.drain().then(() => {
    left = true;
  });
  for (let seconds = 0; !left && seconds < 600; await nextTurn(), seconds += 0.1)
    clock.advance(100);
  await leaving;
  await hanging.stop();
});
