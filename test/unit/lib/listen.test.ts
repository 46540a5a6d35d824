/** Why a program cannot listen, as its operator is told. */
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { expectFree } from '../../../src/lib/listen.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

test('an address of IPv6 that is in use is written as it is configured', async () => {
  const other = createServer().listen(0, '::1');
  await once(other, 'listening');
  stopAfterTest(() => new Promise<void>((done) => other.close(() => done())));
  const { port } = other.address() as AddressInfo;
  await expect(expectFree({ host: '::1', port }, 'admin')).rejects.toThrow(
    `[::1]:${port} is in use by another process; stop it or choose another address with admin`,
  );
});
