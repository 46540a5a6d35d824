/** What a client did not declare: it is not asked for it, and the server is told so. */
import { describe, expect, test } from 'vitest';
import { missingCapability } from '../../../../src/model/question-failures.ts';
import type { ToolCall } from '../../../fixtures/servers/legacy/tools.ts';
import { askName } from '../../../fixtures/servers/legacy-server.ts';
import { OPENAI_CAPABILITIES, pickPart } from '../../../fixtures/servers/openai-form.ts';
import { accept, callTool, type Exchanged } from '../../../fixtures/clients/modern-client.ts';
import { greet, legacyGateway, text } from '../../../fixtures/gateways/legacy-gateway.ts';

describe('capabilities that the client did not declare', () => {
  // Rule undeclared-2 (basic, "Error Codes"): If the call fails after that, the client gets 400, -32021 with
  // `data.requiredCapabilities` and `data.upstream`.
  test('are never asked for; the server is told so, and its success counts', async () => {
    const { url, legacy } = await legacyGateway({
      tools: {
        careful: async (call) => {
          const answer = await askName(call).catch((error: unknown) => String(error));
          return `went on: ${answer}`;
        },
      },
    });
    const done = await callTool(url, 'careful', {}, { capabilities: { sampling: {} } });
    expect(text(done)).toContain('went on');
    expect(done.response.result.resultType).toBe('complete');
    const initialize = legacy.received
      .filter(({ method }) => method === 'initialize')
      .map(({ body }) => body.params.capabilities);
    expect(initialize).toContainEqual({ sampling: {} });
  });

  // Rules responses-4, undeclared-2.
  test('make the failure of the call a -32021 that names them', async () => {
    const { url } = await legacyGateway({ tools: greet });
    const failed = await callTool(url, 'greet', {}, { capabilities: {} });
    expect(failed.status).toBe(400);
    expect(failed.response.error).toMatchObject({
      code: -32021,
      data: {
        requiredCapabilities: { elicitation: { form: {} } },
        upstream: { code: -32601 },
      },
    });
  });

  // Rule openai-3.
  test.each([{}, { elicitation: { form: {} } }, { extensions: OPENAI_CAPABILITIES.extensions }])(
    "make the failure of a call that asks for a form of OpenAI's extension one that names both: %j",
    async (capabilities) => {
      const { url } = await legacyGateway({ tools: { pick: pickPart } });
      const { status, response } = await callTool(url, 'pick', {}, { capabilities });
      expect([status, response.error.code]).toEqual([400, -32021]);
      expect(response.error.data).toMatchObject({
        requiredCapabilities: OPENAI_CAPABILITIES,
        upstream: { code: -32601 },
      });
    },
  );

  const asks =
    'This tool asks the user something, and this client cannot show questions (elicitation). ';

  // Rule undeclared-2.
  test('lose nothing of what a tool says that ends with a result', async () => {
    const said = 'The client cannot confirm; nothing was deleted';
    const result = {
      content: [{ type: 'text', text: said }],
      structuredContent: { deleted: 0 },
      isError: true,
    };
    const { url } = await legacyGateway({
      tools: { remove: (call) => askName(call).then(String, () => result) },
    });
    const { status, response } = await callTool(url, 'remove', {}, { capabilities: {} });
    expect([status, response.error.code]).toEqual([400, -32021]);
    expect(response.error.message.startsWith(asks)).toBe(true);
    expect(response.error.message).toContain(`The tool said: "${said}"`);
    expect(response.error.data).toMatchObject({
      requiredCapabilities: { elicitation: { form: {} } },
      upstream: result,
    });
  });

  // Rule undeclared-2.
  test.each([
    ['a form', { elicitation: { form: {} } }, asks],
    [
      "a form of OpenAI's extension",
      OPENAI_CAPABILITIES,
      'This tool asks the user something in a form that this client cannot show (openai/elicitation). ',
    ],
    ['a URL', { elicitation: { url: {} } }, 'This tool sends the user to a web page, '],
    ['a sample', { sampling: {} }, 'This tool asks a model something, '],
    ['roots', { roots: {} }, 'This tool asks which folders to use, '],
    ['several', { elicitation: { form: {}, url: {} }, roots: {} }, `${asks}This tool asks which `],
  ])('are named in words first: %s', (_what, required, words) => {
    expect(missingCapability(required).error.message.startsWith(words)).toBe(true);
  });

  // Rule undeclared-2.
  test('are named with so much of a long text that a message can carry', () => {
    const content = [{ type: 'image' }, { type: 'text', text: 'x'.repeat(100_000) }];
    const { message } = missingCapability({ roots: {} }, { content, isError: true }).error;
    expect(message).toContain(`The tool said: "${'x'.repeat(500)}…"`);
  });
});

// Rule envelope-1.
describe('a retry that declares less than the request before', () => {
  const retryOf = (asked: Exchanged, capabilities: object) =>
    [{ requestState: asked.response.result.requestState }, { capabilities }] as const;

  // Rule undeclared-4 (MRTR, "Server Requirements" 7): What a retry declares counts from then on. If its capabilities
  // do not cover the open questions, it gets -32021, and the pointer stays valid.
  test('is not asked what it cannot answer, and the round is not used up', async () => {
    const { url } = await legacyGateway({
      tools: { greet: async (call) => `Hello ${await askName(call)}` },
    });
    const asked = await callTool(url, 'greet');
    const refused = await callTool(url, 'greet', ...retryOf(asked, {}));
    expect(refused.response.error.code).toBe(-32021);
    const again = await callTool(url, 'greet', ...retryOf(asked, { elicitation: {} }));
    expect(again.response.result.resultType).toBe('input_required');
  });

  // Rule undeclared-4.
  test('is not given the next question in place of a lost response', async () => {
    const tools = {
      two: async (call: ToolCall) =>
        `${await askName(call, 'First?')} ${await askName(call, 'Second?')}`,
    };
    const { url } = await legacyGateway({ tools });
    const asked = await callTool(url, 'two');
    const { requestState, inputRequests } = asked.response.result;
    const [key] = Object.keys(inputRequests);
    const answers = { requestState, inputResponses: { [String(key)]: accept({ name: 'a' }) } };
    const next = await callTool(url, 'two', answers);
    expect(next.response.result.resultType).toBe('input_required');
    const repeated = await callTool(url, 'two', answers, { capabilities: {} });
    expect(repeated.response.error.code).toBe(-32021);
    expect((await callTool(url, 'two', answers)).response.result).toEqual(next.response.result);
  });

  // Rule undeclared-4.
  test('counts for what the server asks next: it hears that nobody can answer', async () => {
    const tools = {
      late: async (call: ToolCall) => {
        await held.promise;
        return `Hello ${await askName(call)}`;
      },
    };
    const held = Promise.withResolvers<void>();
    const { url, legacy } = await legacyGateway({ tools }, { calls: { maxHoldMs: 20 } });
    const first = await callTool(url, 'late');
    const polled = await callTool(url, 'late', ...retryOf(first, {}));
    held.resolve();
    expect((await legacy.saw('response')).body.error).toBeDefined();
    const done = await callTool(url, 'late', ...retryOf(polled, {}));
    expect(done.response.error.code).toBe(-32021);
  });
});
