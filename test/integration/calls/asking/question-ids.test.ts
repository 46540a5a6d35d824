/** The ids that a server gives to its questions: another session begins to count anew. */
import { expect, test } from 'vitest';
import { hurriedClock } from '../../../fixtures/hurried-clock.ts';
import { accept, callTool } from '../../../fixtures/clients/modern-client.ts';
import { startTestGateway } from '../../../fixtures/gateways/gateway.ts';
import {
  eventStream,
  json,
  legacyServer,
  URL_NEEDED,
} from '../../../fixtures/servers/scripted-server.ts';
import { stopAfterTest } from '../../../fixtures/stop-after-test.ts';

const FORM = { message: 'Name?', requestedSchema: { type: 'object', properties: {} } };
const QUESTION = 0;

/**
 * A server that asks and takes that back, and then demands a visit. It forgets the session, and asks in the next one under the
 * same id.
 */
async function forgetfulServer() {
  let calls = 0;
  const answers: unknown[] = [];
  let finish = () => {};
  const server = await legacyServer(
    ({ body }, response) => {
      calls += 1;
      if (calls === 2) {
        const error = { code: -32001, message: 'Session not found' };
        return json(response, 404, { jsonrpc: '2.0', id: body.id, error });
      }
      const stream = eventStream(response);
      const send = (message: object) => stream.send({ jsonrpc: '2.0', ...message });
      finish = () => send({ id: body.id, result: { content: [] } });
      send({ id: QUESTION, method: 'elicitation/create', params: FORM });
      if (calls > 1) return;
      send({ method: 'notifications/cancelled', params: { requestId: QUESTION } });
      send({ id: body.id, error: URL_NEEDED });
    },
    {
      onResponse: ({ body }, response) => {
        response.writeHead(202).end();
        answers.push(body.id);
        finish();
      },
    },
  );
  stopAfterTest(() => server.stop());
  return { server, answers };
}

// Rule shown-8.
test('a question with the id of one that was taken back in an earlier session is answered', async () => {
  const { server, answers } = await forgetfulServer();
  const gateway = await startTestGateway(server.url, {
    transport: 'streamable-http',
    clock: hurriedClock(50),
  });
  stopAfterTest(() => gateway.close());
  const retry = async (
    { result }: Awaited<ReturnType<typeof callTool>>['response'],
    answer: object,
  ) => {
    const keys = Object.keys(result.inputRequests);
    const inputResponses = Object.fromEntries(keys.map((key) => [key, answer]));
    const { requestState } = result;
    return (await callTool(gateway.url, 'pay', { requestState, inputResponses })).response;
  };
  const { response: urls } = await callTool(gateway.url, 'pay');
  const asked = await retry(urls, { action: 'accept' });
  expect(Object.keys(asked.result.inputRequests)).toHaveLength(1);
  const done = await retry(asked, accept());
  expect(done.result).toMatchObject({ resultType: 'complete' });
  expect(answers).toEqual([QUESTION]);
});
