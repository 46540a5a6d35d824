/** The reference server of the protocol's authors behind the gateway: what it asks, the official client answers. */
import type { CallToolResult } from '@modelcontextprotocol/client';
import { describe, expect, test } from 'vitest';
import { hurriedClock } from '../fixtures/hurried-clock.ts';
import { EVERYTHING_STDIO, startEverything } from '../fixtures/processes.ts';
import { askedStage } from '../fixtures/real-servers/asked-testbed.ts';
import { Barrier } from '../fixtures/real-servers/barrier.ts';
import { sampled } from '../fixtures/real-servers/sampled.ts';
import { allText, onlyText } from '../fixtures/real-servers/tool-text.ts';

const EVERYTHING_TRANSPORTS = [
  { transport: 'streamableHttp', path: '/mcp' },
  { transport: 'sse', path: '/sse' },
  { transport: 'stdio', path: '' },
] as const;

const ADA = { name: 'Ada Lovelace', check: true, integer: 36, email: 'ada@example.org' };
const HERO = { const: 'hero-2', title: 'Green Lantern' };
const FISH = { const: 'fish-2', title: 'Salmon' };
const TWENTY = Array.from({ length: 20 }, (_, index) => index);

function nameIn(result: CallToolResult): string | undefined {
  return /^- Name: (.+)$/m.exec(allText(result))?.[1];
}

describe.each(EVERYTHING_TRANSPORTS)('server-everything over $transport', ({ transport, path }) => {
  const stage = askedStage(
    transport === 'stdio' ? EVERYTHING_STDIO : () => startEverything(transport),
    path,
    {
      // It waits for what the server says of a visit, and before the next call of a session in which questions name no call. It must
      // not be so fast that the server is too slow for its first question.
      clock: hurriedClock(5),
    },
  );

  test('a form is asked with all its fields, and the answers stand in the result', async () => {
    const { client, questions, wire } = await stage.connect({
      elicitation: () => ({ action: 'accept', content: ADA }),
    });

    const result = await client.callTool({ name: 'trigger-elicitation-request' });

    expect(questions).toHaveLength(1);
    expect(questions[0]?.params).toMatchObject({
      message: 'Please provide inputs for the following fields:',
      requestedSchema: {
        properties: {
          name: { type: 'string' },
          integer: { type: 'integer', minimum: 1, maximum: 100, default: 42 },
          titledSingleSelectEnum: { oneOf: expect.arrayContaining([HERO]) },
          titledMultipleSelectEnum: { items: { anyOf: expect.arrayContaining([FISH]) } },
          legacyTitledEnum: { enumNames: ['Cats', 'Dogs', 'Birds', 'Fish', 'Reptiles'] },
        },
        required: ['name'],
      },
    });
    for (const line of [
      '- Name: Ada Lovelace',
      '- Agreed to terms: true',
      '- Email: ada@example.org',
      '- Favorite Integer: 36',
    ]) {
      expect(allText(result)).toContain(line);
    }
    expect(await wire.resultTypes('tools/call')).toEqual(['input_required', 'complete']);
  });

  test.each([
    { action: 'decline', says: 'User declined to provide the requested information' },
    { action: 'cancel', says: 'User cancelled the elicitation dialog' },
  ] as const)('the server hears $action from a user who chose it', async ({ action, says }) => {
    const { client } = await stage.connect({ elicitation: () => ({ action }) });

    const result = await client.callTool({ name: 'trigger-elicitation-request' });

    expect(allText(result)).toContain(says);
  });

  test.each([
    { action: 'accept', says: 'User completed the URL elicitation flow' },
    { action: 'decline', says: 'User declined to open the URL' },
  ] as const)('a user is sent to a URL, and $action reaches the server', async (choice) => {
    const { client, questions } = await stage.connect({
      elicitation: () => ({ action: choice.action }),
    });

    const result = await client.callTool({
      name: 'trigger-url-elicitation',
      arguments: { url: 'https://example.org/pay?order=7', message: 'Pay, please' },
    });

    expect(questions.map(({ params }) => params)).toEqual([
      expect.objectContaining({
        mode: 'url',
        url: 'https://example.org/pay?order=7',
        message: 'Pay, please',
      }),
    ]);
    expect(allText(result)).toContain(choice.says);
  });

  test('a URL that the server demands by an error is asked for, and the call goes on after it', async () => {
    const { client, questions } = await stage.connect({
      elicitation: () => ({ action: 'accept' }),
    });

    const result = await client.callTool({
      name: 'trigger-url-elicitation',
      arguments: { url: 'https://example.org/after', errorPath: true },
    });

    expect(questions.map(({ params }) => params)).toEqual([
      expect.objectContaining({ mode: 'url', url: 'https://modelcontextprotocol.io' }),
      expect.objectContaining({ mode: 'url', url: 'https://example.org/after' }),
    ]);
    expect(allText(result)).toContain('URL: https://example.org/after');
  });

  test('a model of the client samples what the server asks for', async () => {
    const { client, questions } = await stage.connect({
      sampling: ({ maxTokens }) => sampled(`a haiku in ${maxTokens} tokens`),
    });

    const result = await client.callTool({
      name: 'trigger-sampling-request',
      arguments: { prompt: 'Write a haiku', maxTokens: 17 },
    });

    expect(questions).toHaveLength(1);
    expect(questions[0]?.params).toMatchObject({
      messages: [{ role: 'user', content: { text: expect.stringContaining('Write a haiku') } }],
      systemPrompt: 'You are a helpful test server.',
      maxTokens: 17,
      temperature: 0.7,
    });
    const [, json = ''] = onlyText(result).split('LLM sampling result: \n');
    expect(JSON.parse(json)).toEqual(sampled('a haiku in 17 tokens'));
  });

  test('the roots of the client stand in the result', async () => {
    const { client, questions } = await stage.connect({
      roots: [{ uri: 'file:///home/ada', name: 'Home' }, { uri: 'file:///srv/data' }],
    });

    const result = await client.callTool({ name: 'get-roots-list' });

    // The server may ask twice: it also looks for roots by itself soon after a session began.
    expect(questions.length).toBeGreaterThanOrEqual(1);
    expect(new Set(questions.map(({ method }) => method))).toEqual(new Set(['roots/list']));
    expect(onlyText(result)).toContain(
      'Current MCP Roots (2 total):\n\n1. Home\n   URI: file:///home/ada\n\n' +
        '2. Unnamed Root\n   URI: file:///srv/data',
    );
  });

  // Rule concurrent-5.
  test.each([
    ['of which nothing is known, after a form', 'trigger-elicitation-request', {}],
    ['that has ended here without asking', 'trigger-long-running-operation', { duration: 0.2 }],
  ])('who cancels a call of a tool %s is asked by the next call', async (_what, name, args) => {
    const { client } = await stage.connect({
      elicitation: () => ({ action: 'accept', content: ADA }),
    });
    const long = { name: 'trigger-long-running-operation' };
    await client.callTool({ name, arguments: { ...args, steps: 1 } });
    const leaving = AbortSignal.timeout(200);
    const left = client.callTool({ ...long, arguments: { duration: 30 } }, { signal: leaving });
    await expect(left).rejects.toThrow();
    await stage.gateway.log.saw('call.ended', stage.gateway.log.named('call.ended').length + 1);

    const result = await client.callTool({ name: 'trigger-elicitation-request' });

    expect(nameIn(result)).toBe('Ada Lovelace');
  });

  // Over HTTP+SSE and stdio, calls of one caller run one after the other: all questions come on one stream, which names
  // no call.
  const concurrency = transport === 'streamableHttp' ? 'at once' : 'one after the other';
  twentyOfOneUser(stage, concurrency);

  // Over stdio, each has a process.
  const users = transport === 'stdio' ? TWENTY.slice(0, 4) : TWENTY;
  test(`${users.length} users who are asked at once each find their own answer in their own result`, async () => {
    const barrier = new Barrier(users.length);
    const connected = await Promise.all(
      users.map((n) =>
        stage.connect({
          elicitation: async () => {
            await barrier.arrive();
            return { action: 'accept', content: { name: `User ${n}` } };
          },
        }),
      ),
    );

    const results = await Promise.all(
      connected.map(({ client }) => client.callTool({ name: 'trigger-elicitation-request' })),
    );

    expect(results.map(nameIn)).toEqual(users.map((n) => `User ${n}`));
  });
});

/** @param concurrency whether the questions wait together for their answers */
function twentyOfOneUser(
  stage: ReturnType<typeof askedStage>,
  concurrency: 'at once' | 'one after the other',
): void {
  const barrierFor = () => new Barrier(concurrency === 'at once' ? TWENTY.length : 1);

  test(`twenty forms of one user are each answered once, ${concurrency}`, async () => {
    const barrier = barrierFor();
    const { client, questions } = await stage.connect({
      elicitation: async () => ({
        action: 'accept',
        content: { name: `Person ${await barrier.arrive()}` },
      }),
    });

    const results = await Promise.all(
      TWENTY.map(() => client.callTool({ name: 'trigger-elicitation-request' })),
    );

    expect(questions).toHaveLength(TWENTY.length);
    expect(new Set(results.map(nameIn))).toEqual(new Set(TWENTY.map((n) => `Person ${n}`)));
  });

  test(`twenty questions that differ bring each answer to its own call, ${concurrency}`, async () => {
    const barrier = barrierFor();
    const { client } = await stage.connect({
      elicitation: async (params) => {
        await barrier.arrive();
        const even = 'url' in params && Number(params.url.split('/').at(-1)) % 2 === 0;
        return { action: even ? 'accept' : 'decline' };
      },
    });

    const results = await Promise.all(
      TWENTY.map((n) =>
        client.callTool({
          name: 'trigger-url-elicitation',
          arguments: { url: `https://example.org/${n}`, elicitationId: `visit-${n}` },
        }),
      ),
    );

    for (const [n, result] of results.entries()) {
      expect(allText(result)).toContain(n % 2 === 0 ? 'User completed' : 'User declined');
      expect(allText(result)).toMatch(new RegExp(`Elicitation ID: visit-${n}\\b`));
    }
  });
}

describe('server-everything over sse, with a session for each call (sessions.concurrency: separate)', () => {
  const stage = askedStage(() => startEverything('sse'), '/sse', {
    clock: hurriedClock(20),
    sessions: { concurrency: 'separate' },
  });
  twentyOfOneUser(stage, 'at once');
});
