/** What a client asks for by a URI that is as good as a password is told to its server only. */
import { expect, test } from 'vitest';
import { gatewayBefore } from '../../fixtures/gateways/test-gateway.ts';
import { send } from '../../fixtures/clients/modern-client.ts';
import { eventStream, json, legacyServer } from '../../fixtures/servers/scripted-server.ts';

test('the URI of a signed resource is in no line of the log and in no metric, however reading it ends', async () => {
  const server = await legacyServer(({ body }, response) => {
    const { uri } = body.params;
    const { pathname } = new URL(uri);
    const of = { jsonrpc: '2.0', id: body.id };
    if (pathname === '/found') {
      json(response, 200, { ...of, result: { contents: [{ uri, text: 'found' }] } });
    } else if (pathname === '/missing') {
      json(response, 200, { ...of, error: { code: -32002, message: uri, data: { uri } } });
    } else if (pathname === '/broken') {
      json(response, 500, { ...of, error: { code: -32603, message: uri } });
    } else if (pathname === '/moved') {
      response.writeHead(302, { location: uri }).end();
    } else if (pathname === '/asking') {
      eventStream(response).send({
        jsonrpc: '2.0',
        id: 'q',
        method: 'elicitation/create',
        params: { message: 'Name?', requestedSchema: { type: 'object', properties: {} } },
      });
    } else {
      response.destroy();
    }
  });
  const { gateway } = await gatewayBefore(server, { admin: true });
  const paths = ['found', 'missing', 'broken', 'moved', 'asking', 'cut'];
  for (const path of paths) {
    const uri = `https://user:concealed@files.example/${path}?sig=concealed#concealed`;
    await send(gateway.url, 'resources/read', { uri });
  }
  expect(gateway.log.named('call.started').map(({ target }) => target)).toEqual(
    paths.map((path) => `https://files.example/${path}`),
  );
  expect(gateway.log.named('upstream.failed')).not.toEqual([]);
  expect(JSON.stringify(gateway.log.lines)).not.toContain('concealed');
  const metrics = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
  expect(metrics).not.toMatch(/concealed|files\.example/);
});
