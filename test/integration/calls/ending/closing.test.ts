/** How a gateway leaves when a server does not let it. */
import { connect } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { startTestGateway } from '../../../fixtures/gateways/gateway.ts';
import { advanceUntil, ManualClock } from '../../../fixtures/manual-clock.ts';
import { callTool, send } from '../../../fixtures/clients/modern-client.ts';
import { scriptedGateway } from '../../../fixtures/gateways/scripted-gateway.ts';
import { json, ScriptedServer } from '../../../fixtures/servers/scripted-server.ts';

test('a server that does not respond to its handshake keeps no gateway from leaving', async () => {
  const hanging = await ScriptedServer.start(() => {});
  const clock = new ManualClock();
  const starting = startTestGateway(hanging.url, {
    transport: 'streamable-http',
    upstream: { headersTimeoutMs: 3_600_000 },
    clock,
  });
  await hanging.saw(({ body }) => body?.method === 'initialize');
  clock.advance(5_000);
  const gateway = await starting;
  // It waits for the greeting of the start, for as long as the server may take.
  const asked = send(gateway.url, 'server/discover').then(
    () => 'answered',
    () => 'cut',
  );
  await advanceUntil(clock, gateway.drain(), 600_000);
  expect(await asked).toBe('cut');
  expect(hanging.received.map(({ body }) => body?.method)).toEqual(['initialize']);
  await hanging.stop();
});

// Rule sessions-9.
test('a gateway leaves when its server has heard of the end of each session', async () => {
  const told: string[] = [];
  let isCalled = false;
  const mayAnswer = Promise.withResolvers<void>();
  const { url, server, gateway } = await scriptedGateway(
    ({ body }, response) => {
      isCalled = true;
      json(response, 200, { jsonrpc: '2.0', id: body.id, result: {} });
    },
    { sessions: { scope: 'call' } },
    {
      onDelete: async (_received, response) => {
        // The session with which the gateway found out what the server speaks.
        if (!isCalled) return void response.writeHead(200).end();
        const over = () => told.push(response.writableFinished ? 'heard' : 'cut');
        response.once('close', over).once('finish', () => response.off('close', over));
        await mayAnswer.promise;
        response.end(() => told.push('heard'));
      },
    },
  );
  const ofGreeting = server.received.filter(({ method }) => method === 'DELETE').length;
  await callTool(url, 'plain');
  while (server.received.filter(({ method }) => method === 'DELETE').length === ofGreeting) {
    await nextTurn();
  }
  const closed = gateway.close().then(() => told.push('closed'));
  // The public side is closed before sessions are.
  while (await connects(url)) await nextTurn();
  // Time enough to leave, for one that does not wait.
  const enough = new Promise((resolve) => setTimeout(resolve, 500));
  await Promise.race([closed, enough]);
  mayAnswer.resolve();
  await closed;
  expect(told).toEqual(['heard', 'closed']);
});

function connects(url: string): Promise<boolean> {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port) });
  return new Promise((resolve) => {
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
  }).finally(() => socket.destroy()) as Promise<boolean>;
}
