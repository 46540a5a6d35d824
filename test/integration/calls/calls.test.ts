/** Calls that ask in the middle, over real sockets: what the client sees, and what the legacy server is told. */
import {
  CreateMessageResultSchema,
  ListRootsResultSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { describe, expect, test } from 'vitest';
import { askName } from '../../fixtures/servers/legacy-server.ts';
import { accept, callTool, send } from '../../fixtures/clients/modern-client.ts';
import { greet, legacyGateway, text } from '../../fixtures/gateways/legacy-gateway.ts';

describe('a question in the middle of a call', () => {
  // Rule shown-1 (MRTR, "Basic Workflow"): The questions of a call become the `inputRequests` of an
  // `InputRequiredResult` with a `requestState`, under status 200.
  // Rule retries-1.
  test('becomes an InputRequiredResult, and its answer finishes the call', async () => {
    const { url } = await legacyGateway({ tools: greet });
    const asked = await callTool(url, 'greet');
    expect(asked.status).toBe(200);
    expect(asked.response.result).toEqual({
      resultType: 'input_required',
      inputRequests: {
        'elicitation-1': {
          method: 'elicitation/create',
          params: {
            mode: 'form',
            message: 'Your name?',
            requestedSchema: {
              type: 'object',
              properties: { name: { type: 'string' } },
              required: ['name'],
            },
          },
        },
      },
      requestState: expect.stringMatching(/^[\w-]+\.\.[\w-]+\.[\w-]+\.[\w-]+$/),
      _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'legacy', version: '1.2.3' } },
    });
    const { requestState } = asked.response.result;
    const done = await callTool(url, 'greet', {
      requestState,
      inputResponses: { 'elicitation-1': accept({ name: 'Ada' }) },
    });
    expect(done.response.result).toEqual({
      resultType: 'complete',
      content: [{ type: 'text', text: 'Hello Ada' }],
      _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'legacy', version: '1.2.3' } },
    });
  });

  // Rule shown-7 (MRTR, "Server Requirements" 8): A call has `parking.maxRounds` rounds (10 by default). Then it is
  // cancelled, and the client gets -32603 with `data.reason` `too_many_rounds`, the tool and the limit.
  test('may be followed by another, each with its own pointer', async () => {
    const { url } = await legacyGateway({
      tools: {
        two: async (call) => `${await askName(call, 'First?')} ${await askName(call, 'Second?')}`,
      },
    });
    const first = await callTool(url, 'two');
    const second = await callTool(url, 'two', {
      requestState: first.response.result.requestState,
      inputResponses: { 'elicitation-1': accept({ name: 'a' }) },
    });
    expect(Object.keys(second.response.result.inputRequests)).toEqual(['elicitation-2']);
    expect(second.response.result.requestState).not.toBe(first.response.result.requestState);
    const done = await callTool(url, 'two', {
      requestState: second.response.result.requestState,
      inputResponses: { 'elicitation-2': accept({ name: 'b' }) },
    });
    expect(text(done)).toBe('a b');
  });

  test('goes to the client together with others that come at the same time', async () => {
    const { url } = await legacyGateway({
      tools: {
        many: async (call) => {
          const sampled = call.extra.sendRequest(
            {
              method: 'sampling/createMessage',
              params: {
                messages: [{ role: 'user', content: { type: 'text', text: 'hi' } }],
                maxTokens: 5,
              },
            },
            CreateMessageResultSchema,
          );
          const listed = call.extra.sendRequest({ method: 'roots/list' }, ListRootsResultSchema);
          const [name, { content }, { roots }] = await Promise.all([
            askName(call),
            sampled,
            listed,
          ]);
          return `${name} ${'text' in content ? content.text : ''} ${roots[0]?.uri}`;
        },
      },
    });
    const asked = await callTool(url, 'many');
    const { inputRequests, requestState } = asked.response.result;
    expect(Object.keys(inputRequests)).toEqual(['sampling-1', 'roots-1', 'elicitation-1']);
    expect(inputRequests['roots-1']).toEqual({ method: 'roots/list', params: {} });
    const done = await callTool(url, 'many', {
      requestState,
      inputResponses: {
        'elicitation-1': accept({ name: 'Ada' }),
        'sampling-1': { role: 'assistant', model: 'm', content: { type: 'text', text: 'hello' } },
        'roots-1': { roots: [{ uri: 'file:///a' }] },
      },
    });
    expect(text(done)).toBe('Ada hello file:///a');
  });

  // Rules questions-4, methods-1.
  test('may come in a prompt and in a resource', async () => {
    const { url } = await legacyGateway({
      prompts: { hello: (call) => askName(call) },
      resources: { 'test://one': (call) => askName(call) },
    });
    for (const [method, params, content] of [
      ['prompts/get', { name: 'hello' }, 'messages'],
      ['resources/read', { uri: 'test://one' }, 'contents'],
    ] as const) {
      const asked = await send(url, method, params);
      expect(asked.response.result).not.toHaveProperty('ttlMs');
      const done = await send(url, method, {
        ...params,
        requestState: asked.response.result.requestState,
        inputResponses: { 'elicitation-1': accept({ name: 'Ada' }) },
      });
      expect(JSON.stringify(done.response.result[content])).toContain('Ada');
    }
  });

  // Rule answers-1 (elicitation, "Response Actions"): `accept` goes back with its content, `decline` and `cancel`
  // without.
  test('is answered upstream with what the user decided when the user says no', async () => {
    const { url } = await legacyGateway({ tools: greet });
    for (const action of ['decline', 'cancel']) {
      const asked = await callTool(url, 'greet');
      const done = await callTool(url, 'greet', {
        requestState: asked.response.result.requestState,
        inputResponses: { 'elicitation-1': { action } },
      });
      expect(text(done)).toBe(`Hello ${action}`);
    }
  });
});

describe('answers', () => {
  const both = {
    both: async (call: Parameters<typeof askName>[0]) =>
      (await Promise.all([askName(call, 'One?'), askName(call, 'Two?')])).join(' '),
  };

  // Rule answers-4 (MRTR, "Error Handling"): Some of the answers go to the server at once, and the others are asked
  // for in a further round.
  test('that are partial lead to a new question for what is missing', async () => {
    const { url, legacy } = await legacyGateway({ tools: both });
    const asked = await callTool(url, 'both');
    const partial = await callTool(url, 'both', {
      requestState: asked.response.result.requestState,
      inputResponses: { 'elicitation-2': accept({ name: 'two' }) },
    });
    expect(Object.keys(partial.response.result.inputRequests)).toEqual(['elicitation-1']);
    expect(legacy.methods().filter((method) => method === 'response')).toHaveLength(1);
    const done = await callTool(url, 'both', {
      requestState: partial.response.result.requestState,
      inputResponses: { 'elicitation-1': accept({ name: 'one' }) },
    });
    expect(text(done)).toBe('one two');
  });

  // Rule answers-3 (MRTR, "Error Handling"): Answers to unknown or closed keys are ignored.
  test('to keys that nobody asked for are ignored', async () => {
    const { url } = await legacyGateway({ tools: greet });
    const asked = await callTool(url, 'greet');
    const done = await callTool(url, 'greet', {
      requestState: asked.response.result.requestState,
      inputResponses: {
        'elicitation-1': accept({ name: 'Ada' }),
        'elicitation-7': accept({ name: 'Eve' }),
        __proto__x: accept(),
      },
    });
    expect(text(done)).toBe('Hello Ada');
  });

  // Rule answers-5 (MRTR, "Error Handling"): A retry without an answer gets the same questions and a fresh pointer.
  test('that are none at all lead to the same question again', async () => {
    const { url } = await legacyGateway({ tools: greet });
    const asked = await callTool(url, 'greet');
    const again = await callTool(url, 'greet', {
      requestState: asked.response.result.requestState,
      inputResponses: { other: accept() },
    });
    expect(again.response.result.inputRequests).toEqual(asked.response.result.inputRequests);
    const done = await callTool(url, 'greet', {
      requestState: again.response.result.requestState,
      inputResponses: { 'elicitation-1': accept({ name: 'Ada' }) },
    });
    expect(text(done)).toBe('Hello Ada');
  });

  // Rule answers-6 (MRTR, "Error Handling"): An ill-formed answer gets -32602 with `data.reason`
  // `invalid_input_response` and `data.key`. No answer of that retry goes to the server, and the pointer stays valid.
  test('that are ill-formed are refused by their key, and the pointer stays good', async () => {
    const { url } = await legacyGateway({ tools: greet });
    const asked = await callTool(url, 'greet');
    const { requestState } = asked.response.result;
    for (const wrong of [
      { action: 'maybe' },
      { action: 'accept', content: [] },
      { action: 'accept', content: { name: { first: 'Ada' } } },
    ]) {
      const refused = await callTool(url, 'greet', {
        requestState,
        inputResponses: { 'elicitation-1': wrong },
      });
      expect(refused.status).toBe(200);
      expect(refused.response.error).toMatchObject({
        code: -32602,
        message: expect.stringContaining('inputResponses["elicitation-1"]'),
        data: { reason: 'invalid_input_response', key: 'elicitation-1' },
      });
    }
    const done = await callTool(url, 'greet', {
      requestState,
      inputResponses: { 'elicitation-1': accept({ name: 'Ada' }) },
    });
    expect(text(done)).toBe('Hello Ada');
  });
});
