/** Clients that leave while a request of theirs waits that may not ask anything. */
import { describe, expect, test } from 'vitest';
import { startTestGateway } from '../../../fixtures/gateways/gateway.ts';
import { send } from '../../../fixtures/clients/modern-client.ts';
import { json, legacyServer, type Answer } from '../../../fixtures/servers/scripted-server.ts';
import { stopAfterTest } from '../../../fixtures/stop-after-test.ts';

/** @param onGet what comes of the stream without which no session is ready */
async function ground(onList: Answer, onGet?: Answer) {
  const server = await legacyServer(onList, onGet === undefined ? {} : { onGet });
  stopAfterTest(() => server.stop());
  const gateway = await startTestGateway(server.url);
  stopAfterTest(() => gateway.close());
  return { server, gateway };
}

describe('a client that leaves', () => {
  test('while a list is asked for has it cancelled, and that is no failure of the server', async () => {
    const { server, gateway } = await ground(() => {});
    const leaving = new AbortController();
    const listed = send(gateway.url, 'tools/list', {}, { signal: leaving.signal });
    const { body } = await server.saw((received) => received.body?.method === 'tools/list');
    leaving.abort();
    await expect(listed).rejects.toThrow();
    const cancelled = await server.saw(
      (received) => received.body?.method === 'notifications/cancelled',
    );
    expect(cancelled.body.params.requestId).toBe(body.id);
    await gateway.close();
    expect(gateway.log.named('upstream.failed')).toEqual([]);
  });

  test('while the session for it is opened has nothing asked for', async () => {
    const asked = Promise.withResolvers<void>();
    const opened = Promise.withResolvers<void>();
    let isHeld = false;
    const { server, gateway } = await ground(
      ({ body }, response) => {
        json(response, 200, { jsonrpc: '2.0', id: body.id, result: { tools: [] } });
      },
      async (_received, response) => {
        if (isHeld) {
          asked.resolve();
          await opened.promise;
        }
        response.writeHead(405).end();
      },
    );
    isHeld = true;
    const leaving = new AbortController();
    const listed = send(gateway.url, 'tools/list', {}, { signal: leaving.signal });
    await asked.promise;
    leaving.abort();
    await expect(listed).rejects.toThrow();
    // Whoever is answered now came after the other had gone.
    await send(gateway.url, 'made/up');
    opened.resolve();
    await send(gateway.url, 'tools/list');
    expect(server.methods().filter((method) => method === 'tools/list')).toHaveLength(1);
    expect(gateway.log.named('upstream.failed')).toEqual([]);
  });
});
