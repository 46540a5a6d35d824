/** What the proposal of sagas prints, message by message, in front of a legacy server that asks these questions. */
import { expect, test } from 'vitest';
import { proposalGateway } from '../../fixtures/dialects/testbed.ts';

const PATH = '/drafts/sagas';
const opaque = expect.any(String);
const CALL = {
  jsonrpc: '2.0',
  id: 'client-req-1',
  method: 'tools/callSaga',
  params: { name: 'complex_tool', arguments: { initial_arg: 'value' } },
};
const resume = (id: string, sagaToken: string, completedSteps: object[]) => ({
  jsonrpc: '2.0',
  id,
  method: 'tools/resumeSaga',
  params: { sagaToken, completedSteps },
});
const STEP_A = {
  stepId: 'step-elicitation-A',
  result: { action: 'accept', content: { target: 'production' } },
};
const STEP_B = {
  stepId: 'step-sampling-B',
  result: {
    role: 'assistant',
    content: { type: 'text', text: 'Yes, all systems are green.' },
    model: 'client-side-llm-v2',
  },
};

// Rule dialects-7: In a saga each answer goes to the server once.
test('the deployment saga: an elicitation, then a sampling, with all steps each time', async () => {
  const { client, legacy } = await proposalGateway('sagas', PATH);
  const first = await client.send(CALL);
  expect(first).toEqual({
    jsonrpc: '2.0',
    id: 'client-req-1',
    result: {
      state: 'suspended',
      sagaToken: opaque,
      steps: [
        {
          type: 'elicitation',
          stepId: 'step-elicitation-A',
          params: {
            message: 'Please provide the deployment target:',
            requestedSchema: {
              type: 'object',
              properties: { target: { type: 'string' } },
              required: ['target'],
            },
          },
        },
      ],
    },
  });
  const second = await client.send(resume('client-req-2', first.result.sagaToken, [STEP_A]));
  expect(second).toEqual({
    jsonrpc: '2.0',
    id: 'client-req-2',
    result: {
      state: 'suspended',
      sagaToken: opaque,
      steps: [
        {
          type: 'sampling',
          stepId: 'step-sampling-B',
          params: {
            messages: [
              {
                role: 'user',
                content: { type: 'text', text: "Is deploying to 'production' safe right now?" },
              },
            ],
            maxTokens: 100,
          },
        },
      ],
    },
  });
  expect(second.result.sagaToken).not.toBe(first.result.sagaToken);
  const third = await client.send(
    resume('client-req-3', second.result.sagaToken, [STEP_A, STEP_B]),
  );
  expect(third).toEqual({
    jsonrpc: '2.0',
    id: 'client-req-3',
    result: {
      content: [
        {
          type: 'text',
          text: 'Deployment to production initiated successfully based on confirmation.',
        },
      ],
    },
  });
  // Each question is answered once, and the tool is called once.
  expect(legacy.methods().filter((method) => method === 'response')).toHaveLength(2);
  expect(legacy.methods().filter((method) => method === 'tools/call')).toHaveLength(1);
});

// Rule dialects-8: A step that failed at the client is a JSON-RPC error for the server.
test('a step that failed at the client is an error for the server', async () => {
  const { client, legacy } = await proposalGateway('sagas', PATH);
  const first = await client.send(CALL);
  const second = await client.send(resume('r-2', first.result.sagaToken, [STEP_A]));
  const error = { code: -1, message: 'User rejected sampling request', data: { by: 'policy' } };
  const failed = { stepId: 'step-sampling-B', error };
  const third = await client.send(resume('r-3', second.result.sagaToken, [STEP_A, failed]));
  expect(third.result.content[0].text).toContain('Not deployed: ');
  expect(third.result.content[0].text).toContain('User rejected sampling request');
  expect(legacy.received.find(({ body }) => body.error !== undefined)?.body.error).toEqual(error);
  // A repeated retry gets the same result, another error does not.
  const again = await client.send(resume('r-4', second.result.sagaToken, [STEP_A, failed]));
  expect(again.result).toEqual(third.result);
  const other = { ...failed, error: { ...error, code: -2 } };
  const changed = await client.send(resume('r-5', second.result.sagaToken, [STEP_A, other]));
  expect(changed.error.code).toBe(-32602);
});

// Rule dialects-10: A client is asked only what it declares and its dialect can express.
test('a plain call is served, and can ask nothing', async () => {
  const { client, legacy } = await proposalGateway('sagas', PATH);
  const { params } = CALL;
  await client.send({ jsonrpc: '2.0', id: 1, method: 'tools/call', params });
  const initialize = await legacy.saw('initialize');
  expect(initialize.body.params.capabilities).toEqual({});
});

// Rule dialects-17.
test.each([
  ['another tool', (call: object) => ({ ...call, params: { name: 'echo', arguments: {} } })],
  ['another method', (call: object) => ({ ...call, method: 'prompts/get' })],
  ['other arguments', (call: object) => ({ ...call, params: { name: 'complex_tool' } })],
  ['another state', (call: object) => ({ ...call, requestState: 'x.y' })],
])('a token that was changed to name %s is refused', async (_what, change) => {
  const { client } = await proposalGateway('sagas', PATH);
  const first = await client.send(CALL);
  const token = JSON.parse(Buffer.from(first.result.sagaToken, 'base64url').toString());
  const forged = Buffer.from(JSON.stringify(change(token))).toString('base64url');
  const reply = await client.send(resume('r', forged, [STEP_A]));
  expect(reply.error).toMatchObject({ code: expect.any(Number) });
  expect(reply.result).toBeUndefined();
  // The saga itself goes on.
  const second = await client.send(resume('r-2', first.result.sagaToken, [STEP_A]));
  expect(second.result.state).toBe('suspended');
});
