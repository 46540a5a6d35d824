/**
 * Dialects on several gateways that share Redis: any of them serves what a client of another one began.
 * @module-tag redis
 * @module-tag long
 */
import { expect, test } from 'vitest';
import { DialectClient } from '../fixtures/clients/dialect-client.ts';
import { KEY_NAMES, TOOLS } from '../fixtures/dialects/proposal-tools.ts';
import { legacyServer, redisServer, replicas } from '../fixtures/gateways/replica-testbed.ts';

const route = {
  dialects: { sagas: '/drafts/sagas', rewritten: '/drafts/rewritten' },
  questions: { keyNames: KEY_NAMES },
};

async function fleet() {
  const server = legacyServer({ tools: TOOLS, keepsEvents: true });
  const [legacy, redis] = await Promise.all([server, redisServer()]);
  const [one, other] = await replicas(legacy, 2, { redis: redis.url, route });
  return { legacy, one, other };
}

const request = (id: number, method: string, params: object) => ({
  ...{ jsonrpc: '2.0', id, method, params },
});

// Rule dialects-8.
test('a step that failed reaches the replica that has the saga', async () => {
  const { legacy, one, other } = await fleet();
  const path = '/drafts/sagas';
  const client = await DialectClient.connect(one.url, path);
  const elsewhere = await DialectClient.connect(other.url, path);
  const first = await client.send(request(1, 'tools/callSaga', { name: 'complex_tool' }));
  const target = { action: 'accept', content: { target: 'production' } };
  const completed = { stepId: 'step-elicitation-A', result: target };
  const { sagaToken } = first.result;
  const second = await elsewhere.send(
    request(2, 'tools/resumeSaga', { sagaToken, completedSteps: [completed] }),
  );
  const error = { code: -1, message: 'rejected' };
  const steps = [completed, { stepId: 'step-sampling-B', error }];
  const third = await elsewhere.send(
    request(3, 'tools/resumeSaga', {
      sagaToken: second.result.sagaToken,
      completedSteps: steps,
    }),
  );
  expect(third.result.content[0].text).toContain('Not deployed: ');
  expect(legacy.received.find(({ body }) => body.error !== undefined)?.body.error).toEqual(error);
  expect(legacy.methods().filter((method) => method === 'tools/call')).toHaveLength(1);
});

// Rule dialects-13.
test('a task of a draft goes on at another replica after its owner was killed', async () => {
  const { legacy, one, other } = await fleet();
  const path = '/drafts/rewritten';
  const client = await DialectClient.connect(one.url, path);
  const elsewhere = await DialectClient.connect(other.url, path);
  const call = request(1, 'tools/call', { name: 'echo', task: { ttl: 60_000 } });
  const { taskId } = (await client.send(call)).result.task;
  const asked = await elsewhere.send(request(2, 'tasks/result', { taskId }));
  expect(Object.keys(asked.result.inputRequests)).toEqual(['echo_input']);
  await one.kill();
  const given = await elsewhere.send(
    request(3, 'tasks/input_response', {
      inputResponses: { echo_input: { action: 'accept', content: { input: 'Hello' } } },
      _meta: { 'io.modelcontextprotocol/related-task': { taskId } },
    }),
  );
  expect(given.error).toBeUndefined();
  const result = await elsewhere.send(request(4, 'tasks/result', { taskId }));
  expect(result.result.content[0].text).toBe('Echo: Hello');
  expect(legacy.methods().filter((method) => method === 'tools/call')).toHaveLength(1);
});
