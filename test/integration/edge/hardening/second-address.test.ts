/** A listener of several addresses, as `localhost` has: what holds for the connections of one holds for those of all. */
import { once } from 'node:events';
import { describe, expect, test } from 'vitest';
import { PublicListener } from '../../../../src/front/public-listener.ts';
import { CLIENT_TIMEOUTS } from '../../../../src/edge/http/connection.ts';
import { rawRequest, sendRaw } from '../../../fixtures/clients/raw-http.ts';
import { closed, open } from '../../../fixtures/gateways/survival-testbed.ts';
import { stopAfterTest } from '../../../fixtures/stop-after-test.ts';

const ADDRESSES = ['127.0.0.1', '127.0.0.2'];
const LENGTH = ['content-length', '10'] as const;

/** Listens on two addresses. `urls` has one for each. */
async function twoAddresses() {
  const refused: (string | undefined)[] = [];
  const listener = new PublicListener(CLIENT_TIMEOUTS, {
    max: () => 3,
    counted: () => {},
    refused: (client) => void refused.push(client),
    stalled: () => {},
  });
  stopAfterTest(() => listener.close());
  const at = { host: 'localhost', port: 0 };
  const origin = await listener.listen(at, {}, async () => ADDRESSES);
  const { port } = new URL(origin);
  return { listener, refused, urls: ADDRESSES.map((address) => `http://${address}:${port}`) };
}

// Not every system has a second address without being told.
describe('at the second address of a name', { tags: ['linux'] }, () => {
  // Rule http-9.
  test('connections count towards the limit with those at the first', async () => {
    const { urls, refused } = await twoAddresses();
    const [first = '', second = ''] = urls;
    for (const url of [first, second, second]) await once(open(url), 'connect');
    for (const url of urls) {
      const beyond = open(url);
      beyond.resume();
      await closed(beyond);
    }
    expect(refused).toEqual(['127.0.0.1', '127.0.0.1']);
  });

  // Rule http-6.
  test('a request that is refused is not asked for its body', async () => {
    const { listener, urls } = await twoAddresses();
    listener.serve((_request, response) => void response.writeHead(403).end());
    for (const url of urls) {
      const asked = rawRequest('POST', '/', [['host', 'a'], ['expect', '100-continue'], LENGTH]);
      const answer = await sendRaw(url, asked);
      expect(answer.text).toMatch(/^HTTP\/1\.1 403 /);
    }
  });

  // Rule http-7.
  test('malformed bytes after a request never get its response', async () => {
    const { listener, urls } = await twoAddresses();
    for (const url of urls) {
      const socket = open(url);
      let text = '';
      socket.on('data', (data) => (text += data.toString('latin1')));
      const served = new Promise<void>((resolve) => listener.serve(() => resolve()));
      socket.write(rawRequest('GET', '/', [['host', 'a']]));
      await served;
      socket.write('GARBAGE\r\n\r\n');
      await closed(socket);
      expect(text).toBe('');
    }
  });
});
