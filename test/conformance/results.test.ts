/**
 * What the conformance suite never looks at: that each question arrives as it was asked, that the server is
 * told what the client answered, and that the result which it makes of the answers comes back.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startTestGateway } from '../fixtures/gateways/gateway.ts';
import { ASKING_TOOLS } from '../fixtures/conformance/asking-tools.ts';
import { startLegacyConformance } from '../fixtures/conformance/process.ts';
import {
  accept,
  send,
  type Exchanged,
  type SendOptions,
} from '../fixtures/clients/modern-client.ts';
import {
  askedForName,
  CONVERSATIONS,
  elicited,
  sampled,
  type Conversation,
  type Question,
} from './conversations.ts';
import { LEGACY_SERVERS } from './legacy-servers.ts';

const SERVER_INFO = {
  'io.modelcontextprotocol/serverInfo': { name: 'legacy-conformance', version: '1.0.0' },
};

test('there is a conversation with every tool that asks', () => {
  expect(Object.keys(CONVERSATIONS).sort()).toEqual(Object.keys(ASKING_TOOLS).sort());
});

describe.each(LEGACY_SERVERS)(
  'through the gateway, a server on $transport that asks $asks with $ids ids',
  (legacyServer) => {
    const stops: (() => Promise<unknown>)[] = [];
    let url: string;

    beforeAll(async () => {
      const legacy = await startLegacyConformance(legacyServer);
      stops.push(() => legacy.stop());
      const gateway = await startTestGateway(legacy.url);
      stops.push(() => gateway.close());
      url = gateway.url;
    });
    afterAll(async () => {
      for (const stop of stops.reverse()) await stop();
    });

    /** Sends the request and answers what is asked, round by round; out: what came last. */
    async function converse(
      method: string,
      params: object,
      rounds: Conversation['rounds'],
      options: SendOptions = {},
    ): Promise<Exchanged> {
      let exchanged = await send(url, method, params, options);
      for (const questions of rounds) {
        const { inputRequests, requestState } = inputRequired(exchanged);
        const inputResponses = answersTo(inputRequests, questions);
        exchanged = await send(url, method, { ...params, requestState, inputResponses }, options);
      }
      return exchanged;
    }

    /** The answers by the keys that the gateway gave; fails unless exactly these questions were asked. */
    function answersTo(asked: Record<string, unknown>, questions: readonly Question[]) {
      const requests = Object.values(asked);
      expect(requests).toHaveLength(questions.length);
      expect(requests).toEqual(expect.arrayContaining(questions.map(({ request }) => request)));
      if (legacyServer.ids === 'string') {
        const names = questions.map(({ name }) => expect.stringMatching(`^${name}(_\\d+)?$`));
        expect(Object.keys(asked)).toEqual(expect.arrayContaining(names));
      }
      return Object.fromEntries(
        Object.entries(asked).map(([key, request]) => [key, answerTo(request, questions)]),
      );
    }

    test.each(Object.entries(CONVERSATIONS))(
      '%s is asked what it asks and answers with what it was told',
      async (name, { rounds, text }) => {
        const { status, response } = await converse('tools/call', call(name), rounds);
        expect(status).toBe(200);
        expect(response.result).toEqual(complete({ content: [{ type: 'text', text }] }));
      },
    );

    test('a prompt is told its context', async () => {
      const context = accept({ context: 'a lighthouse' });
      const question = 'What context should the prompt use?';
      const { response } = await converse(
        'prompts/get',
        { name: 'test_input_required_result_prompt' },
        [[elicited('user_context', question, 'context', 'string', context)]],
      );
      const content = { type: 'text', text: 'In the context of a lighthouse.' };
      expect(response.result).toEqual(complete({ messages: [{ role: 'user', content }] }));
    });

    test.each(['decline', 'cancel'])('a tool is told that the user chose to %s', async (action) => {
      const name = 'test_input_required_result_elicitation';
      const { response } = await converse('tools/call', call(name), [[askedForName({ action })]]);
      expect(response.result.content).toEqual([{ type: 'text', text: `Hello, ${action}!` }]);
    });

    test('progress before a question reaches the client on the stream of the call', async () => {
      const first = await send(url, 'tools/call', call('test_streaming_elicitation'), {
        meta: { progressToken: 'fifty' },
      });
      expect(first.notifications).toEqual([
        {
          jsonrpc: '2.0',
          method: 'notifications/progress',
          params: { progressToken: 'fifty', progress: 50, total: 100, message: '50 of 100' },
        },
      ]);
      expect(Object.values(inputRequired(first).inputRequests)).toEqual([askedForName({}).request]);
    });

    test.each([
      {
        can: 'be asked',
        capabilities: { elicitation: {} },
        asked: [elicited('elicit_input', 'A value?', 'value', 'string', accept({ value: 'v' }))],
        text: '1 answers',
      },
      {
        can: 'sample',
        capabilities: { sampling: {} },
        asked: [sampled('sample_input', 'A sample', 50, 's')],
        text: '1 answers',
      },
    ])('a tool that checks capabilities asks a client that can $can', async (one) => {
      const name = 'test_input_required_result_capabilities';
      const { capabilities } = one;
      const done = await converse('tools/call', call(name), [one.asked], { capabilities });
      expect(done.response.result.content).toEqual([{ type: 'text', text: one.text }]);
    });

    test('a tool that checks capabilities asks nothing of a client without any', async () => {
      const name = 'test_input_required_result_capabilities';
      const { response } = await converse('tools/call', call(name), [], { capabilities: {} });
      expect(response.result.content).toEqual([{ type: 'text', text: '0 answers' }]);
    });

    test.each([{}, { elicitation: {} }])(
      'the question of a tool that checks no capabilities is refused for a client with %j',
      async (capabilities) => {
        const params = call('test_missing_capability');
        const { status, response } = await send(url, 'tools/call', params, { capabilities });
        expect(status).toBe(400);
        expect(response.error.code).toBe(-32021);
        expect(response.error.data.requiredCapabilities).toEqual({ sampling: {} });
      },
    );
  },
);

function call(name: string) {
  return { name, arguments: {} };
}

function complete(result: object) {
  return { resultType: 'complete', ...result, _meta: SERVER_INFO };
}

function inputRequired({ response }: Exchanged): {
  readonly inputRequests: Record<string, unknown>;
  readonly requestState: string;
} {
  expect(response.result).toMatchObject({
    resultType: 'input_required',
    inputRequests: expect.any(Object),
    requestState: expect.any(String),
  });
  return response.result;
}

/** No two questions of a round are of one method. */
function answerTo(request: unknown, questions: readonly Question[]): object {
  const question = questions.find((candidate) => {
    return JSON.stringify(request).includes(`"${candidate.request.method}"`);
  });
  if (question === undefined) throw new Error(`unexpected: ${JSON.stringify(request)}`);
  return question.answer;
}
