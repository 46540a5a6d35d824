/**
 * A server of the official Python SDK, version 1, behind the gateway. Runs where `MCP_PYTHON` names a
 * Python that has it: `python3 -m venv venv && venv/bin/pip install 'mcp<2'`.
 */
import { describe, expect, test } from 'vitest';
import { askedStage } from '../fixtures/real-servers/asked-stage.ts';
import { Barrier } from '../fixtures/real-servers/barrier.ts';
import { PYTHON, startPythonServer } from '../fixtures/real-servers/python-server.ts';
import { sampled } from '../fixtures/real-servers/sampled.ts';
import { onlyText, text } from '../fixtures/real-servers/tool-text.ts';

const CASES = [
  { transport: 'streamable-http', path: '/mcp' },
  { transport: 'sse', path: '/sse' },
] as const;

describe.skipIf(PYTHON === undefined).each(CASES)(
  'a server of the Python SDK over $transport (needs MCP_PYTHON, a python with mcp 1.x)',
  ({ transport, path }) => {
    const stage = askedStage(() => startPythonServer(transport), path);

    test('a tool that asks nothing answers with text and structure', async () => {
      const { client, wire } = await stage.connect();

      const result = await client.callTool({ name: 'add', arguments: { a: 19, b: 23 } });

      expect(result).toMatchObject({ content: [text('42')], structuredContent: { result: 42 } });
      expect(await wire.resultTypes('tools/call')).toEqual(['complete']);
    });

    test('a tool that fails does so in its own words', async () => {
      const { client } = await stage.connect();

      const result = await client.callTool({ name: 'fail' });

      expect(result.isError).toBe(true);
      expect(onlyText(result)).toContain('no such luck');
    });

    test('a tool reports its progress', async () => {
      const { client } = await stage.connect();
      const seen: unknown[] = [];

      const result = await client.callTool(
        { name: 'count', arguments: { steps: 3 } },
        { onprogress: (progress) => seen.push(progress) },
      );

      expect(seen).toMatchObject([
        { progress: 1, total: 3, message: 'step 1' },
        { progress: 2, total: 3, message: 'step 2' },
        { progress: 3, total: 3, message: 'step 3' },
      ]);
      expect(onlyText(result)).toBe('counted to 3');
    });

    test('a form is asked with its schema, and the answer is used', async () => {
      const { client, questions, wire } = await stage.connect({
        elicitation: () => ({ action: 'accept', content: { city: 'Oslo', nights: 5 } }),
      });

      const result = await client.callTool({ name: 'book' });

      expect(questions).toMatchObject([
        {
          params: {
            message: 'Where do you want to go?',
            requestedSchema: {
              properties: {
                city: { type: 'string', description: 'Where to' },
                nights: { type: 'integer', minimum: 1, maximum: 30, default: 2 },
                breakfast: { type: 'boolean', default: true },
              },
              required: ['city'],
            },
          },
        },
      ]);
      expect(onlyText(result)).toBe('5 nights in Oslo, breakfast: True');
      expect(await wire.resultTypes('tools/call')).toEqual(['input_required', 'complete']);
    });

    test.each(['decline', 'cancel'] as const)('the server hears %s', async (action) => {
      const { client } = await stage.connect({ elicitation: () => ({ action }) });

      expect(onlyText(await client.callTool({ name: 'book' }))).toBe(`not booked: ${action}`);
    });

    test('a second round asks about the answer of the first', async () => {
      const { client, questions, wire } = await stage.connect({
        elicitation: ({ message }) => ({
          action: 'accept',
          content: message.startsWith('Which seat') ? { seat: '12A' } : { city: 'Lima' },
        }),
      });

      const result = await client.callTool({ name: 'book_seat' });

      expect(questions).toMatchObject([
        { params: { message: 'Where do you want to go?' } },
        { params: { message: 'Which seat to Lima?' } },
      ]);
      expect(onlyText(result)).toBe('seat 12A to Lima');
      expect(await wire.resultTypes('tools/call')).toEqual([
        'input_required',
        'input_required',
        'complete',
      ]);
    });

    test('a user is sent to a URL', async () => {
      const { client, questions } = await stage.connect({
        elicitation: () => ({ action: 'accept' }),
      });

      const result = await client.callTool({ name: 'pay' });

      expect(questions).toMatchObject([
        { params: { mode: 'url', url: 'https://example.org/pay', message: 'Pay, please' } },
      ]);
      expect(onlyText(result)).toBe('payment: accept');
    });

    test.each([
      { tool: 'haiku', stream: 'the stream of the call' },
      { tool: 'haiku_apart', stream: 'the standalone stream' },
    ])('a model of the client samples what is asked on $stream', async ({ tool }) => {
      const { client, questions } = await stage.connect({ sampling: () => sampled('frost') });

      const result = await client.callTool({ name: tool, arguments: { about: 'winter' } });

      expect(questions).toMatchObject([
        {
          params: {
            maxTokens: 50,
            messages: [{ role: 'user', content: text('Haiku: winter') }],
          },
        },
      ]);
      expect(onlyText(result)).toBe('frost');
    });

    test('the roots of the client reach a tool that asks on the standalone stream', async () => {
      const { client } = await stage.connect({
        roots: [{ uri: 'file:///home/ada' }, { uri: 'file:///srv/data' }],
      });

      const result = await client.callTool({ name: 'roots' });

      expect(onlyText(result)).toBe('file:///home/ada, file:///srv/data');
    });

    test('ten calls that are asked at once each get the answer to their own question', async () => {
      const topics = Array.from({ length: 10 }, (_, n) => `topic ${n}`);
      const barrier = new Barrier(topics.length);
      const { client } = await stage.connect({
        sampling: async ({ messages }) => {
          await barrier.arrive();
          return sampled(`answer to ${JSON.stringify(messages[0]?.content)}`);
        },
      });

      const results = await Promise.all(
        topics.map((about) => client.callTool({ name: 'haiku_apart', arguments: { about } })),
      );

      expect(results.map(onlyText)).toEqual(
        topics.map((about) => `answer to ${JSON.stringify(text(`Haiku: ${about}`))}`),
      );
    });

    test('resources, templates and prompts are listed and read', async () => {
      const { client } = await stage.connect();

      const { tools } = await client.listTools();
      const { resources } = await client.listResources();
      const { resourceTemplates } = await client.listResourceTemplates();
      const { prompts } = await client.listPrompts();
      const fixed = await client.readResource({ uri: 'note://fixed' });
      const about = await client.readResource({ uri: 'note://about/frost' });
      const review = await client.getPrompt({ name: 'review', arguments: { code: 'x = 1' } });

      expect(tools.map(({ name }) => name)).toEqual(TOOLS);
      expect(resources.map(({ uri }) => uri)).toEqual(['note://fixed']);
      expect(resourceTemplates.map((template) => template.uriTemplate)).toEqual([
        'note://about/{topic}',
      ]);
      expect(prompts).toMatchObject([{ name: 'review', arguments: [{ name: 'code' }] }]);
      expect(fixed.contents).toMatchObject([{ uri: 'note://fixed', text: 'a fixed note' }]);
      expect(about.contents).toMatchObject([{ text: 'a note about frost' }]);
      expect(review.messages).toEqual([{ role: 'user', content: text('Review this: x = 1') }]);
    });
  },
);

const TOOLS = ['add', 'fail', 'count', 'book', 'book_seat', 'pay', 'haiku', 'haiku_apart', 'roots'];
