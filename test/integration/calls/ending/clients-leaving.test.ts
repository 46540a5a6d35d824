/** Clients that leave while a request of theirs waits: what the server is told, and what the log says. */
import { describe, expect, test } from 'vitest';
import { gatewayBefore } from '../../../fixtures/gateways/test-gateway.ts';
import { callTool, send } from '../../../fixtures/clients/modern-client.ts';
import {
  eventStream,
  json,
  legacyServer,
  type Answer,
} from '../../../fixtures/servers/scripted-server.ts';

type Answers = NonNullable<Parameters<typeof legacyServer>[1]>;

/** @param options `onGet` is what comes of the stream without which no session is ready */
async function ground(onRequest: Answer, options: Pick<Answers, 'onGet' | 'onNotification'> = {}) {
  const server = await legacyServer(onRequest, options);
  const { gateway } = await gatewayBefore(server);
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

  test('while a tool is at work has it cancelled, and a stream that then ends is no failure of the server', async () => {
    let end = () => {};
    const { server, gateway } = await ground(
      (_received, response) => {
        const stream = eventStream(response);
        end = () => stream.end();
      },
      {
        onNotification: ({ body }, response) => {
          response.writeHead(202).end();
          if (body.method === 'notifications/cancelled') end();
        },
      },
    );
    const leaving = new AbortController();
    const called = callTool(gateway.url, 'work', {}, { signal: leaving.signal });
    await server.saw(({ body }) => body?.method === 'tools/call');
    leaving.abort();
    await expect(called).rejects.toThrow();
    await gateway.log.saw('call.ended');
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
      {
        onGet: async (_received, response) => {
          if (isHeld) {
            asked.resolve();
            await opened.promise;
          }
          response.writeHead(405).end();
        },
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
