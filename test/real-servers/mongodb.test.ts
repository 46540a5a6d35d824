/**
 * MongoDB's own server behind the gateway: it asks for confirmation on its standalone stream, and
 * would run the tool unasked if the gateway hid from it that the client can be asked.
 */
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { askedStage } from '../fixtures/real-servers/asked-testbed.ts';
import { startKnowledgeApi, type KnowledgeApi } from '../fixtures/real-servers/knowledge-api.ts';
import { startMongodb } from '../fixtures/real-servers/node-server.ts';
import { allText, onlyText } from '../fixtures/real-servers/tool-text.ts';

const TOOL = { name: 'list-knowledge-sources', arguments: {} };
const REFUSED =
  'User did not confirm the execution of the `list-knowledge-sources` tool ' +
  'so the operation was not performed.';

describe('mongodb-mcp-server', () => {
  let api: KnowledgeApi | undefined;
  const stage = askedStage(async () => {
    api = await startKnowledgeApi([{ id: 'manual', type: 'documentation', versions: [] }]);
    return startMongodb(api.url);
  }, '/mcp');

  beforeEach(() => {
    api?.requests.splice(0);
  });
  afterAll(() => api?.stop());

  test('the confirmation reaches the user as an input request', async () => {
    const { client, questions, wire } = await stage.connect({
      elicitation: () => ({ action: 'accept', content: { confirmation: 'Yes' } }),
    });

    await client.callTool(TOOL);

    expect(questions).toMatchObject([
      {
        method: 'elicitation/create',
        params: {
          message: expect.stringContaining('You are about to execute the `list-knowledge-sources`'),
          requestedSchema: {
            properties: { confirmation: { enum: ['Yes', 'No'] } },
            required: ['confirmation'],
          },
        },
      },
    ]);
    const [first, second] = await wire.of('tools/call');
    expect(await wire.resultTypes('tools/call')).toEqual(['input_required', 'complete']);
    expect(second?.params).toMatchObject({
      requestState: expect.any(String),
      inputResponses: expect.any(Object),
    });
    expect(first?.params).not.toHaveProperty('inputResponses');
  });

  test('a user who confirms lets the tool run, once', async () => {
    const { client } = await stage.connect({
      elicitation: () => ({ action: 'accept', content: { confirmation: 'Yes' } }),
    });

    const result = await client.callTool(TOOL);

    expect(allText(result)).toContain('Found 1 data sources');
    expect(allText(result)).toContain('id: manual');
    expect(api?.requests).toEqual(['/api/v1/content/sources']);
  });

  test.each([
    { title: 'who declines', answer: { action: 'decline' } },
    { title: 'who dismisses the question', answer: { action: 'cancel' } },
    { title: 'who says no', answer: { action: 'accept', content: { confirmation: 'No' } } },
  ] as const)('a user $title keeps the tool from running', async ({ answer }) => {
    const { client, questions } = await stage.connect({ elicitation: () => answer });

    const result = await client.callTool(TOOL);

    expect(questions).toHaveLength(1);
    expect(result.isError).toBe(true);
    expect(onlyText(result)).toBe(REFUSED);
    expect(api?.requests).toEqual([]);
  });
});
