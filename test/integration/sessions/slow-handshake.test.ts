/** The first calls of a caller, which come while their session is still being opened. */
import { expect, test } from 'vitest';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import { legacyGateway, text } from '../../fixtures/gateways/legacy-gateway.ts';
import { answersOf } from '../../fixtures/gateways/replica-testbed.ts';
import type { ToolCall } from '../../fixtures/servers/legacy/tools.ts';

const ADA = { headers: { authorization: 'Bearer ada' } };

// Rule sessions-11.
test('calls that wait together for their session are asked each its own question', async () => {
  const requestedSchema = { type: 'object', properties: { name: { type: 'string' } } } as const;
  const greet = async ({ args, server }: ToolCall) => {
    const { content } = await server.elicitInput({ message: `${args['who']}?`, requestedSchema });
    return `Hello ${content?.['name']}`;
  };
  const { url } = await legacyGateway({ tools: { greet }, standaloneAfterMs: 600 });
  const whole = async (who: string) => {
    const asked = await callTool(url, 'greet', { arguments: { who } }, ADA);
    const { inputRequests } = asked.response.result;
    expect(JSON.stringify(inputRequests)).toContain(`${who}?`);
    const answers = { arguments: { who }, ...answersOf(asked, who) };
    return text(await callTool(url, 'greet', answers, ADA));
  };
  expect(await Promise.all(['Eve', 'Bob', 'Cyd'].map(whole))).toEqual([
    'Hello Eve',
    'Hello Bob',
    'Hello Cyd',
  ]);
});
