/** How far an answer has to go in the gateway: from the decision to send it to the HTTP client. */
import { Agent } from 'undici';
import { expect, onTestFinished, test, vi } from 'vitest';
import { accept, callTool } from '../../../fixtures/clients/modern-client.ts';
import { gatewayBefore } from '../../../fixtures/gateways/test-gateway.ts';
import { askName, LegacyServer } from '../../../fixtures/servers/legacy-server.ts';

const { dispatch } = Agent.prototype;

/** The functions of the gateway between the one that has effects carried out and undici, the last one first. */
function framesOf(stack: string): (string | undefined)[] {
  const frames = stack.split('\n').filter((line) => line.includes('/src/'));
  const names = frames.map((line) => /at (?:async )?(?:new )?(\S+) /.exec(line)?.[1]);
  return names.slice(0, names.indexOf('carryOut'));
}

test('from the decision to send an answer to the HTTP client there are six functions at most', async () => {
  const server = await LegacyServer.start({
    tools: { greet: async (call) => `Hello ${await askName(call)}` },
  });
  const { gateway } = await gatewayBefore(server);
  const stacks: string[] = [];
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 50;
  onTestFinished(() => void (Error.stackTraceLimit = stackTraceLimit));
  const spy = vi.spyOn(Agent.prototype, 'dispatch').mockImplementation(function (
    this: Agent,
    options,
    handler,
  ) {
    if (String(options.body).includes('Ada')) stacks.push(new Error().stack ?? '');
    return dispatch.call(this, options, handler);
  });
  onTestFinished(() => spy.mockRestore());
  const { response: asked } = await callTool(gateway.url, 'greet');
  const [key = ''] = Object.keys(asked.result.inputRequests);
  const { requestState } = asked.result;
  const inputResponses = { [key]: accept({ name: 'Ada' }) };
  const { response } = await callTool(gateway.url, 'greet', { requestState, inputResponses });
  expect(response.result.content[0].text).toBe('Hello Ada');
  expect(stacks).toHaveLength(1);
  const frames = framesOf(stacks[0] ?? '');
  expect(frames.at(-1)).toBe('postAnswers');
  expect(frames.length).toBeLessThanOrEqual(6);
});
