/** The load balancer of the fault tests: what it does to connections must not look like a fault of the gateway. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { RoundRobin } from '../fixtures/gateways/load-balancer.ts';
import { stopAfterTest } from '../fixtures/stop-after-test.ts';

test.each(['keep-alive', 'close'])(
  'no response tells a client how long the backend keeps its connection: %s',
  async (connection) => {
    const backend = createServer((_request, response) => {
      response.writeHead(200, { connection, 'keep-alive': 'timeout=65' }).end('here');
    });
    stopAfterTest(async () => void backend.close());
    await new Promise<void>((resolve) => backend.listen(0, '127.0.0.1', resolve));
    const { port } = backend.address() as AddressInfo;
    const front = await RoundRobin.start([`http://127.0.0.1:${port}/mcp`]);
    stopAfterTest(() => front.stop());
    const answer = await fetch(front.url);
    expect(await answer.text()).toBe('here');
    // Node.js names a time as well where the server itself closes idle connections.
    expect(answer.headers.get('keep-alive')).toBeNull();
    expect(answer.headers.get('connection')).toBe('keep-alive');
  },
);
