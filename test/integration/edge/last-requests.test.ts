/** The requests of clients that connect in the moment in which a process stops. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { send } from '../../fixtures/clients/modern-client.ts';
import { rawCall } from '../../fixtures/gateways/survival-testbed.ts';
import { scriptedGateway } from '../../fixtures/gateways/scripted-gateway.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';

// Rule drain-14: A client that has just connected has 250 ms for its request, and is told to retry.
test('a request on a connection that was just opened gets a response from a process that stops', async () => {
  const clock = new ManualClock();
  const { url, gateway } = await scriptedGateway(() => {}, { clock });
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port) });
  let response = '';
  socket.on('data', (bytes) => (response += bytes.toString()));
  await once(socket, 'connect');
  // Its connection was accepted after that one.
  await send(url, 'server/discover');
  const drained = gateway.drain();
  for (let isListening = true; isListening; await nextTurn()) {
    clock.advance(10);
    isListening = await send(url, 'server/discover').then(
      () => true,
      () => false,
    );
  }
  socket.write(rawCall());
  await once(socket, 'close');
  expect(response).toContain('"reason":"stopping"');
  clock.advance(250);
  await drained;
});
