/** `sampling/createMessage` and `roots/list` of every revision, on every stream on which it can ask. */
import { describe, expect, test } from 'vitest';
import { callTool, send } from '../fixtures/clients/modern-client.ts';
import { ASKS } from '../fixtures/revisions/sdk.ts';
import {
  askedAndTold,
  inputRequired,
  revisionStage,
  textOf,
} from '../fixtures/revisions/testbed.ts';
import { before, SERVERS, since, streamsOf, TITLE } from '../fixtures/revisions/table.ts';

const TEXT = { type: 'text', text: 'What is this?' };
const IMAGE = { type: 'image', data: 'iVBORw0KGgo=', mimeType: 'image/png' };
const AUDIO = { type: 'audio', data: 'UklGRg==', mimeType: 'audio/wav' };
const PLAIN = { messages: [{ role: 'user', content: TEXT }], maxTokens: 50 };

const said = (content: object) => ({
  role: 'assistant',
  model: 'model-1',
  stopReason: 'endTurn',
  content,
});
const sampling = (params: object, answer: object = said({ type: 'text', text: 'A cat' })) => ({
  question: { method: 'sampling/createMessage', params },
  answer,
});

describe.each(SERVERS)(TITLE, (shape) => {
  const { revision } = shape;
  const stage = revisionStage(shape);
  const streams = streamsOf(shape);
  const [on = 'own'] = streams;

  // Rule sampling-1 (sampling, "Creating Messages"): Messages, preferences, prompt, limits and metadata pass
  // unchanged.
  // Rule questions-1.
  test.each(streams)(
    'sampling on the %s stream keeps everything that it asks for',
    async (stream) => {
      const audio = revision >= '2025-03-26' ? [{ role: 'user', content: AUDIO }] : [];
      const params = {
        messages: [
          { role: 'user', content: TEXT },
          { role: 'assistant', content: { type: 'text', text: 'An image?' } },
          { role: 'user', content: IMAGE },
          ...audio,
        ],
        modelPreferences: { hints: [{ name: 'small' }], costPriority: 0.2, speedPriority: 1 },
        systemPrompt: 'Be brief',
        temperature: 0.5,
        maxTokens: 50,
        stopSequences: ['END'],
        metadata: { provider: { a: 1 } },
        includeContext: 'thisServer',
      };
      const asking = sampling(params);
      const { requests, told } = await askedAndTold(stage.url, stream, [[asking]]);
      expect(requests).toEqual([[asking.question]]);
      expect(told).toEqual([[{ result: asking.answer }]]);
    },
  );

  // Rule sampling-2 (sampling, "Capabilities"): `includeContext` other than `none` is removed for a client without
  // `sampling.context`.
  test('context is asked of a client only that declares it', async () => {
    const asking = sampling({ ...PLAIN, includeContext: 'allServers' });
    const capabilities = { sampling: {} };
    const { requests } = await askedAndTold(stage.url, on, [[asking]], { capabilities });
    expect(requests).toEqual([[{ method: 'sampling/createMessage', params: PLAIN }]]);
  });

  test('an answer with an image arrives as it is', async () => {
    const { told } = await askedAndTold(stage.url, on, [[sampling(PLAIN, said(IMAGE))]]);
    expect(told).toEqual([[{ result: said(IMAGE) }]]);
  });

  // Rule sampling-4 (2025-06-18 and 2025-11-25 sampling, "Creating Messages"): An answer goes to the server word for
  // word. If the server knows only one block of content, several texts become one, and anything else is -32603.
  test('a list of one block in the answer becomes that block, and texts become one text', async () => {
    const texts = [TEXT, { type: 'text', text: 'A cat' }];
    const rounds = [[sampling(PLAIN, said([IMAGE]))], [sampling(PLAIN, said(texts))]];
    const { told } = await askedAndTold(stage.url, on, rounds);
    const joined = { type: 'text', text: 'What is this?\nA cat' };
    expect(told).toEqual([[{ result: said(IMAGE) }], [{ result: said(joined) }]]);
  });

  // Rule sampling-4.
  test('blocks that cannot be one are refused to the server, which takes one', async () => {
    const { told } = await askedAndTold(stage.url, on, [[sampling(PLAIN, said([TEXT, IMAGE]))]]);
    expect(told).toEqual([[{ error: -32603 }]]);
  });

  // Rule undeclared-1.
  test('a client that cannot sample is not asked', async () => {
    const { question } = sampling(PLAIN);
    const args = { arguments: { rounds: [[question]], on } };
    const done = await callTool(stage.url, 'ask', args, { capabilities: { roots: {} } });
    expect(JSON.parse(textOf(done))).toEqual([[{ error: -32601 }]]);
  });

  // Rule roots-1 (roots, "Listing Roots"): The answer to `roots/list` goes to the server word for word.
  test.each(streams)('roots on the %s stream are asked for and told', async (stream) => {
    const roots = { roots: [{ uri: 'file:///home/ada', name: 'Home' }, { uri: 'file:///srv' }] };
    const asking = { question: { method: 'roots/list' }, answer: roots };
    const { requests, told } = await askedAndTold(stage.url, stream, [[asking]]);
    expect(requests).toEqual([[{ method: 'roots/list', params: {} }]]);
    expect(told).toEqual([[{ result: roots }]]);
  });

  // Rule questions-4.
  test.each([
    { method: 'prompts/get', params: { name: ASKS } },
    { method: 'resources/read', params: { uri: `test://${ASKS}` } },
  ])('$method may ask as well', async ({ method, params }) => {
    const asked = await send(stage.url, method, params);
    const { inputRequests, requestState } = inputRequired(asked);
    expect(Object.values(inputRequests)).toEqual([{ method: 'roots/list', params: {} }]);
    const [key = ''] = Object.keys(inputRequests);
    const inputResponses = { [key]: { roots: [{ uri: 'file:///a' }] } };
    const done = await send(stage.url, method, { ...params, requestState, inputResponses });
    const { messages, contents } = done.response.result;
    const text = messages?.[0].content.text ?? contents[0].text;
    expect(JSON.parse(text)).toEqual({ result: { roots: [{ uri: 'file:///a' }] } });
  });

  // Rule undeclared-1.
  test('a client without roots is not asked for them', async () => {
    const args = { arguments: { rounds: [[{ method: 'roots/list' }]], on } };
    const done = await callTool(stage.url, 'ask', args, { capabilities: { sampling: {} } });
    expect(JSON.parse(textOf(done))).toEqual([[{ error: -32601 }]]);
  });

  test.each(streams)(
    'two questions at once on the %s stream come to the client together',
    async (stream) => {
      const roots = { question: { method: 'roots/list' }, answer: { roots: [] } };
      const asking = sampling(PLAIN);
      const { requests, told } = await askedAndTold(stage.url, stream, [[asking, roots]]);
      expect(requests).toEqual([[asking.question, { method: 'roots/list', params: {} }]]);
      expect(told).toEqual([[{ result: asking.answer }, { result: { roots: [] } }]]);
    },
  );

  // Rule shown-7.
  test.each(streams)('three rounds on the %s stream come one after the other', async (stream) => {
    const roots = { roots: [{ uri: 'file:///a' }] };
    const rounds = [
      [sampling(PLAIN, said({ type: 'text', text: 'first' }))],
      [{ question: { method: 'roots/list' }, answer: roots }],
      [sampling(PLAIN, said({ type: 'text', text: 'third' }))],
    ];
    const { requests, told } = await askedAndTold(stage.url, stream, rounds);
    expect(requests.map((round) => round.length)).toEqual([1, 1, 1]);
    expect(told).toEqual(rounds.map(([asking]) => [{ result: asking?.answer }]));
  });
});

describe.each(before('2025-03-26'))(TITLE, (shape) => {
  const stage = revisionStage(shape);
  // Rule sampling-4.
  test('an answer with audio, which it does not know, is refused to it', async () => {
    const [on = 'own'] = streamsOf(shape);
    const { told } = await askedAndTold(stage.url, on, [[sampling(PLAIN, said(AUDIO))]]);
    expect(told).toEqual([[{ error: -32603 }]]);
  });
});

describe.each(since('2025-03-26'))(TITLE, (shape) => {
  const stage = revisionStage(shape);
  test('an answer with audio arrives as it is', async () => {
    const [on = 'own'] = streamsOf(shape);
    const { told } = await askedAndTold(stage.url, on, [[sampling(PLAIN, said(AUDIO))]]);
    expect(told).toEqual([[{ result: said(AUDIO) }]]);
  });
});

describe.each(since('2025-11-25'))(TITLE, (shape) => {
  const stage = revisionStage(shape);
  const [on = 'own'] = streamsOf(shape);
  const TOOL = { name: 'weather', inputSchema: { type: 'object' } };
  const USE = { type: 'tool_use', id: 'use-1', name: 'weather', input: { city: 'Ulm' } };
  const RESULT = { type: 'tool_result', toolUseId: 'use-1', content: [TEXT] };
  const params = {
    messages: [
      { role: 'user', content: [TEXT] },
      { role: 'assistant', content: [USE] },
      { role: 'user', content: [RESULT] },
    ],
    maxTokens: 50,
    toolChoice: { mode: 'auto' },
  };

  // Rule sampling-3 (sampling, "Tools in Sampling"): A request with `tools` or `toolChoice` is shown only to a client
  // that declares `sampling.tools`.
  test('sampling with tools comes whole, without what only legacy tasks know', async () => {
    const tool = { ...TOOL, execution: { taskSupport: 'optional' } };
    const answer = { ...said([TEXT, USE]), stopReason: 'toolUse' };
    const asking = sampling({ ...params, tools: [tool] }, answer);
    const { requests, told } = await askedAndTold(stage.url, on, [[asking]]);
    const shown = { method: 'sampling/createMessage', params: { ...params, tools: [TOOL] } };
    expect(requests).toEqual([[shown]]);
    expect(told).toEqual([[{ result: answer }]]);
  });

  // Rule sampling-3.
  test('sampling with tools is not asked of a client that samples without', async () => {
    const { question } = sampling({ ...params, tools: [TOOL] });
    const args = { arguments: { rounds: [[question]], on } };
    const done = await callTool(stage.url, 'ask', args, { capabilities: { sampling: {} } });
    expect(JSON.parse(textOf(done))).toEqual([[{ error: -32602 }]]);
  });
});
