/** Answers of a task that the server refuses for the credentials of the caller. */
import { expect, test } from 'vitest';
import { systemClock, type Clock } from '../../../src/lib/clock.ts';
import { hurriedClock } from '../../fixtures/hurried-clock.ts';
import { aboutTask, callForTask, untilTask } from '../../fixtures/clients/task-client.ts';
import { startTestGateway } from '../../fixtures/gateways/gateway.ts';
import { eventStream, legacyServer, URL_NEEDED } from '../../fixtures/servers/scripted-server.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const FORM = { message: 'Name?', requestedSchema: { type: 'object', properties: {} } };
const ACCEPT = { action: 'accept', content: {} };

async function testbed(clock: Clock, ...[onCall, more]: Parameters<typeof legacyServer>) {
  const server = await legacyServer(onCall, more);
  stopAfterTest(() => server.stop());
  const { url, close } = await startTestGateway(server.url, {
    transport: 'streamable-http',
    clock,
    tasks: { promote: 'interactive' },
  });
  stopAfterTest(close);
  const { response } = await callForTask(url, 'pay');
  const { taskId } = response.result;
  const answer = async () => {
    const { inputRequests } = await untilTask(url, taskId, ['input_required']);
    const keys = Object.keys(inputRequests);
    const inputResponses = Object.fromEntries(keys.map((key) => [key, ACCEPT]));
    return (await aboutTask(url, 'update', taskId, { inputResponses })).response;
  };
  return { answer, until: (statuses: string[]) => untilTask(url, taskId, statuses) };
}

// Rule promoted-3.
test('can be given again when the server takes them', async () => {
  let finish = () => {};
  let answers = 0;
  const { answer, until } = await testbed(
    systemClock,
    ({ body }, response) => {
      const stream = eventStream(response);
      const send = (message: object) => stream.send({ jsonrpc: '2.0', ...message });
      send({ id: 7, method: 'elicitation/create', params: FORM });
      finish = () => send({ id: body.id, result: { content: [{ type: 'text', text: 'paid' }] } });
    },
    {
      onResponse: (_request, response) => {
        answers += 1;
        response.writeHead(answers === 1 ? 401 : 202).end();
        if (answers > 1) finish();
      },
    },
  );
  expect((await answer()).error).toMatchObject({ data: { reason: 'unauthorized' } });
  await answer();
  expect((await until(['completed', 'failed'])).result.content[0].text).toBe('paid');
});

// Rule promoted-3.
test('fail the task if the call has ended with them, and say why', async () => {
  let calls = 0;
  const { answer, until } = await testbed(hurriedClock(20), ({ body }, response) => {
    calls += 1;
    if (calls > 1) return void response.writeHead(401).end();
    eventStream(response).send({ jsonrpc: '2.0', id: body.id, error: URL_NEEDED });
  });
  await answer();
  const { error } = await until(['failed']);
  expect(error.data).toMatchObject({ reason: 'unauthorized' });
});
