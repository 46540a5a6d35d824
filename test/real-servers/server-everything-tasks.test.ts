/**
 * The reference server runs one tool only as a task. Clients that know no tasks call it like any other.
 * @module-tag long
 */
import { describe, expect, test } from 'vitest';
import { callTool } from '../fixtures/clients/modern-client.ts';
import { accept } from '../fixtures/clients/modern-client.ts';
import { GatewayProcess } from '../fixtures/gateways/gateway-process.ts';
import { stateOf } from '../fixtures/gateways/replica-testbed.ts';
import { startEverything } from '../fixtures/processes.ts';
import { askedStage } from '../fixtures/real-servers/asked-testbed.ts';
import { onlyText } from '../fixtures/real-servers/tool-text.ts';
import { stopAfterTest } from '../fixtures/stop-after-test.ts';

const TOOL = 'simulate-research-query';
const ARGS = { topic: 'python', ambiguous: true };
const FORMS = { capabilities: { elicitation: { form: {} } } };

const EVERYTHING_TRANSPORTS = [
  { transport: 'streamableHttp', path: '/mcp' },
  { transport: 'sse', path: '/sse' },
] as const;

// Rules tasks-1, tasks-3.
describe.each(EVERYTHING_TRANSPORTS)('server-everything over $transport', ({ transport, path }) => {
  const stage = askedStage(() => startEverything(transport), path);

  test('a tool that demands a task is listed and called as if there were no tasks', async () => {
    const { client, questions, wire } = await stage.connect();
    const { tools } = await client.listTools();
    expect(tools.find(({ name }) => name === TOOL)).not.toHaveProperty('execution');

    const result = await client.callTool({ name: TOOL, arguments: { topic: 'bridges' } });

    expect(onlyText(result)).toMatch(/^# Research Report: bridges\n/);
    expect(result._meta ?? {}).not.toHaveProperty('io.modelcontextprotocol/related-task');
    expect(questions).toEqual([]);
    expect(await wire.resultTypes('tools/call')).toEqual(['complete']);
  });

  test('what it asks inside its task is asked in the call', async () => {
    const { client, questions, wire } = await stage.connect({
      elicitation: () => ({ action: 'accept', content: { interpretation: 'snake' } }),
    });

    const result = await client.callTool({ name: TOOL, arguments: ARGS });

    expect(questions).toHaveLength(1);
    expect(questions[0]?.params).toMatchObject({
      message: expect.stringContaining('"python" could have multiple interpretations'),
      requestedSchema: { required: ['interpretation'] },
    });
    expect(onlyText(result)).toMatch(/^# Research Report: python \(snake\)\n/);
    expect(await wire.resultTypes('tools/call')).toEqual(['input_required', 'complete']);
  });

  test('three clients at once get each their own answer', async () => {
    const choices = ['programming', 'snake', 'comedy'];
    const results = await Promise.all(
      choices.map(async (interpretation) => {
        const { client } = await stage.connect({
          elicitation: () => ({ action: 'accept', content: { interpretation } }),
        });
        return client.callTool({ name: TOOL, arguments: ARGS });
      }),
    );
    expect(results.map((result) => onlyText(result).split('\n')[0])).toEqual(
      choices.map((choice) => `# Research Report: python (${choice})`),
    );
  });
});

// Rule tasks-9.
test('a task whose owner is killed while it waits for an answer completes at another replica', async () => {
  const server = await startEverything('streamableHttp');
  stopAfterTest(() => server.stop());
  const [one, other] = await Promise.all(
    [0, 1].map(async () => {
      const gateway = await GatewayProcess.start({ upstream: `${server.origin}/mcp` });
      stopAfterTest(() => gateway.kill());
      return gateway;
    }),
  );
  const asked = await callTool(one!.url, TOOL, { arguments: ARGS }, FORMS);
  await one!.kill();
  const [key = ''] = Object.keys(asked.response.result.inputRequests);
  const done = await callTool(
    other!.url,
    TOOL,
    {
      arguments: ARGS,
      requestState: stateOf(asked),
      inputResponses: { [key]: accept({ interpretation: 'comedy' }) },
    },
    FORMS,
  );
  expect(done.response.result.content[0].text).toMatch(/^# Research Report: python \(comedy\)\n/);
  expect(await other!.recoveries()).toEqual(['reattach']);
});
