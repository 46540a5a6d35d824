/** Answers that the first request of a call brings, before the server has asked. */
import { describe, expect, test } from 'vitest';
import { accept, callTool, type Exchanged } from '../../../fixtures/clients/modern-client.ts';
import { eventStream, type Answer } from '../../../fixtures/servers/scripted-server.ts';
import { scriptedGateway } from '../../../fixtures/gateways/scripted-gateway.ts';

const FORM = {
  type: 'object',
  properties: { name: { type: 'string', minLength: 2 }, age: { type: 'integer', default: 30 } },
  required: ['name'],
};
const FORM_PARAMS = { message: 'Who?', requestedSchema: FORM };
const ASKS = {
  form: { method: 'elicitation/create', params: FORM_PARAMS },
  url: {
    method: 'elicitation/create',
    params: { mode: 'url', message: 'Pay', url: 'https://pay.example/', elicitationId: 'e' },
  },
  sampling: { method: 'sampling/createMessage', params: { messages: [], maxTokens: 1 } },
  roots: { method: 'roots/list', params: {} },
} as const;
const ADA = accept({ name: 'Ada' });
const SAMPLED = { role: 'assistant', model: 'm', content: { type: 'text', text: 'hi' } };
const ROOTS = { roots: [{ uri: 'file:///elicited-root' }] };

/** A server that asks these questions one after the other, and then tells what it was answered. */
function requester(
  questions: readonly (readonly [id: string | number, kind: keyof typeof ASKS])[],
): (server: () => Awaited<ReturnType<typeof scriptedGateway>>['server']) => Answer {
  return (server) =>
    async ({ body }, response) => {
      const stream = eventStream(response);
      const answers: unknown[] = [];
      for (const [id, kind] of questions) {
        stream.send({ jsonrpc: '2.0', id, ...ASKS[kind] });
        const answer = await server().saw((got) => got.body?.id === id && !got.body.method);
        answers.push(answer.body.result ?? answer.body.error);
      }
      const content = [{ type: 'text', text: JSON.stringify(answers) }];
      stream.send({ jsonrpc: '2.0', id: body.id, result: { content } });
      stream.end();
    };
}

async function start(
  questions: Parameters<typeof requester>[0],
  overrides: Parameters<typeof scriptedGateway>[1] = {},
) {
  const onCall = requester(questions)(() => started.server);
  const started = await scriptedGateway(onCall, { admin: true, ...overrides });
  return started;
}

const answersIn = ({ response }: Exchanged): unknown =>
  JSON.parse(response.result?.content?.[0]?.text ?? 'null');
const keysOf = ({ response }: Exchanged) => Object.keys(response.result?.inputRequests ?? {});

// Rule answers-11: An answer in the first request is used if its key is the server's id or one of
// `questions.keyNames`, and its values fit. At most 64 Ki characters are kept.
describe('an answer that comes before its question', () => {
  test('is used instead of asking, for forms, sampling and roots', async () => {
    const { url, server, gateway } = await start([
      ['who', 'form'],
      ['say', 'sampling'],
      ['where', 'roots'],
    ]);
    const inputResponses = { who: ADA, say: SAMPLED, where: ROOTS, more: ADA };
    const done = await callTool(url, 'ask', { inputResponses });
    expect(answersIn(done)).toEqual([ADA, SAMPLED, ROOTS]);
    const call = await server.saw(({ body }) => body?.method === 'tools/call');
    expect(call.body.params).not.toHaveProperty('inputResponses');
    const logged = gateway.log.named('call.answered_ahead');
    expect(logged.map(({ kind }) => kind)).toEqual(['elicitation-form', 'sampling', 'roots']);
    expect(JSON.stringify(gateway.log.lines)).not.toMatch(/Ada|elicited-root/);
    const metrics = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
    expect(metrics).toContain('mrtr_gateway_answers_ahead_total{route="mcp"} 3');
  });

  test('is used under a name of the operator', async () => {
    const { url } = await start([[7, 'form']], { questions: { keyNames: { ask: ['who'] } } });
    expect(answersIn(await callTool(url, 'ask', { inputResponses: { who: ADA } }))).toEqual([ADA]);
  });

  test('declines as well as it accepts', async () => {
    const { url } = await start([['who', 'form']]);
    const inputResponses = { who: { action: 'decline' } };
    expect(answersIn(await callTool(url, 'ask', { inputResponses }))).toEqual([
      { action: 'decline' },
    ]);
  });

  test('is kept over a round that asks for something else', async () => {
    const { url } = await start([
      ['first', 'form'],
      ['second', 'form'],
    ]);
    const asked = await callTool(url, 'ask', { inputResponses: { second: ADA } });
    expect(keysOf(asked)).toEqual(['first']);
    const { requestState } = asked.response.result;
    const inputResponses = { first: accept({ name: 'Bob' }) };
    const done = await callTool(url, 'ask', { requestState, inputResponses });
    expect(answersIn(done)).toEqual([accept({ name: 'Bob' }), ADA]);
  });

  test.each<[string, Parameters<typeof requester>[0][number], object]>([
    ['under a generated key', [7, 'form'], { 'elicitation-1': ADA }],
    ['to a URL', ['pay', 'url'], { pay: { action: 'accept' } }],
    ['of another kind', ['who', 'form'], { who: ROOTS }],
    ['that leaves out what the form requires', ['who', 'form'], { who: accept({ age: 3 }) }],
    ['that is too short for the form', ['who', 'form'], { who: accept({ name: 'A' }) }],
    ['with a field of another form', ['who', 'form'], { who: accept({ name: 'Ada', mail: 'x' }) }],
    ['that is too long to be kept', ['who', 'form'], { who: accept({ name: 'A'.repeat(70_000) }) }],
  ])('%s is not used: the client is asked', async (_title, ask, inputResponses) => {
    const { url, server } = await start([ask]);
    const asked = await callTool(url, 'ask', { inputResponses });
    expect(keysOf(asked)).toHaveLength(1);
    expect(server.methods()).not.toContain('response');
  });

  test('that the server does not take is asked for', async () => {
    const { url } = await scriptedGateway(
      (_received, response) => {
        eventStream(response).send({ jsonrpc: '2.0', id: 'who', ...ASKS.form });
      },
      {},
      { onResponse: (_received, response) => void response.writeHead(500).end() },
    );
    expect(keysOf(await callTool(url, 'ask', { inputResponses: { who: ADA } }))).toEqual(['who']);
  });
});
