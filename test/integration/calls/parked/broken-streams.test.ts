/** What a call comes to whose time is up, or whose process stops, while its stream is being resumed. */
import { expect, test } from 'vitest';
import { testGateway } from '../../../fixtures/gateways/test-gateway.ts';
import { scriptedGateway } from '../../../fixtures/gateways/scripted-gateway.ts';
import { advanceUntil, ManualClock } from '../../../fixtures/manual-clock.ts';
import { accept, callTool } from '../../../fixtures/clients/modern-client.ts';
import { stopAfterTest } from '../../../fixtures/stop-after-test.ts';
import {
  eventStream,
  json,
  legacyServer,
  type Received,
} from '../../../fixtures/servers/scripted-server.ts';

const resumes = ({ method, headers }: Received) =>
  method === 'GET' && headers['last-event-id'] !== undefined;

// Rule streams-5: A client that waits at the end of `calls.maxDuration` or `parking.callTtl` gets -32603 with
// `data.reason` `upstream_timeout`.
test('a client that waits is told of the timeout when the time of the call is up while its stream is broken', async () => {
  const clock = new ManualClock();
  const { url, server } = await scriptedGateway(
    (_received, response) => {
      const stream = eventStream(response);
      stream.raw('id: e1\ndata: \n\n');
      stream.end();
    },
    { clock, parking: { callTtlMs: 60_000 } },
    {
      onGet: (received, response) => {
        // The stream of the call is never resumed.
        if (!resumes(received)) response.writeHead(405).end();
      },
    },
  );
  const asked = callTool(url, 'work');
  await advanceUntil(clock, server.saw(resumes));
  clock.advance(60_000);
  const { response } = await asked;
  expect(response.error).toMatchObject({ code: -32603, data: { reason: 'upstream_timeout' } });
});

// Rule streams-5.
test('a parked call that another replica can resume is left to it although its stream is being resumed', async () => {
  const question = {
    jsonrpc: '2.0',
    id: 'sure',
    method: 'elicitation/create',
    params: { mode: 'form', message: 'Sure?', requestedSchema: { type: 'object', properties: {} } },
  };
  let finish = () => {};
  let isServed = false;
  const server = await legacyServer(
    ({ body }, response) => {
      if (body.params.name !== 'greet') {
        return json(response, 200, { jsonrpc: '2.0', id: body.id, result: {} });
      }
      const { id } = body;
      const stream = eventStream(response);
      stream.raw('id: e1\ndata: \n\n');
      stream.send(question, 'e2');
      const content = [{ type: 'text', text: 'done' }];
      finish = () => answerTo?.send({ jsonrpc: '2.0', id, result: { content } }, 'e3');
    },
    {
      onGet: (received, response) => {
        if (!resumes(received)) response.writeHead(405).end();
        else if (isServed) answerTo = eventStream(response);
      },
      onResponse: (_received, response) => {
        response.writeHead(202).end();
        finish();
      },
    },
  );
  let answerTo: ReturnType<typeof eventStream> | undefined;
  stopAfterTest(() => server.stop());
  const seal = {
    keys: [{ kid: 'test', key: Buffer.alloc(32, 7).toString('base64url') }],
    audience: 'test',
  };
  const start = async () => {
    const gateway = await testGateway(server.url, { transport: 'streamable-http', seal });
    return gateway;
  };
  const [one, other] = [await start(), await start()];
  const { response: asked } = await callTool(one.url, 'greet');
  server.cut();
  await server.saw(resumes);
  await one.drain();
  expect(server.methods()).not.toContain('notifications/cancelled');
  isServed = true;
  const [key = ''] = Object.keys(asked.result.inputRequests);
  const { response } = await callTool(other.url, 'greet', {
    requestState: asked.result.requestState,
    inputResponses: { [key]: accept() },
  });
  expect(response.result?.content).toEqual([{ type: 'text', text: 'done' }]);
});
