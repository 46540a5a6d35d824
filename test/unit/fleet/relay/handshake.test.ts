import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { connect } from '../../../../src/fleet/relay/direct/handshake.ts';
import { createKeyRing } from '../../../../src/seal/key-ring.ts';
import { stopAfterTest } from '../../../fixtures/stop-after-test.ts';

test('a process that takes the connection and does not answer is silent, and the log can say for how long', async () => {
  const server = createServer(() => {}).listen(0, '127.0.0.1');
  await once(server, 'listening');
  stopAfterTest(async () => server.close());
  const { port } = server.address() as AddressInfo;
  const ring = createKeyRing([{ kid: 'a', secret: Buffer.alloc(32, 1) }], 'frames');
  const local = { instance: 'here', audience: 'fleet', ring };
  expect(await connect({ instance: 'there', address: `http://127.0.0.1:${port}` }, local)).toEqual({
    type: 'silent',
    problem: 'it did not answer within 3000 ms',
  });
});
