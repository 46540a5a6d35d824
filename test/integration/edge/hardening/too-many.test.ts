/** More calls and connections than the gateway takes. */
import { connect } from 'node:net';
import { expect, test } from 'vitest';
import { callTool } from '../../../fixtures/clients/modern-client.ts';
import { json } from '../../../fixtures/servers/scripted-server.ts';
import { callsOf, expectUnharmed, ground } from '../../../fixtures/gateways/survival-testbed.ts';

// Rule validation-23: Calls beyond `limits.maxRunningCalls` get 200, -32603 with `data.reason` `overloaded`.
test('calls beyond the limit are refused at once, and taken again afterwards', async () => {
  const answer = Promise.withResolvers<() => void>();
  const field = await ground({ limits: { maxRunningCalls: 1 } }, ({ body }, response) => {
    answer.resolve(() =>
      json(response, 200, { jsonrpc: '2.0', id: body.id, result: { content: [] } }),
    );
  });
  const held = callTool(field.url, 'held');
  const finish = await answer.promise;
  const refused = await callTool(field.url, 'echo');
  expect(refused.response.error).toMatchObject({ code: -32603, data: { reason: 'overloaded' } });
  expect(callsOf(field)).toBe(1);
  finish();
  expect((await held).response.result.content).toEqual([]);
  await expectUnharmed(field);
});

test('a connection that is opened for nothing costs nothing', async () => {
  const field = await ground();
  const { hostname, port } = new URL(field.url);
  for (let count = 0; count < 200; count += 1) {
    await new Promise<void>((resolve) => {
      const socket = connect({ host: hostname, port: Number(port) }, () =>
        socket.resetAndDestroy(),
      );
      socket.on('error', () => {}).once('close', () => resolve());
    });
  }
  await expectUnharmed(field);
});
