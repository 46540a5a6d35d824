/** The first calls of a caller, which come while their session is still being opened. */
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import { testGateway } from '../../fixtures/gateways/test-gateway.ts';
import { legacyGateway, text } from '../../fixtures/gateways/legacy-gateway.ts';
import { answersOf } from '../../fixtures/gateways/replica-testbed.ts';
import type { ToolCall } from '../../fixtures/servers/legacy/tools.ts';

const SERVER = fileURLToPath(new URL('../../fixtures/servers/stdio-server.js', import.meta.url));
const ADA = { headers: { authorization: 'Bearer ada' } };

// Rule sessions-26.
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

// Rule sessions-26.
test('calls of two tools that wait for a process which starts slowly are asked each its own question', async () => {
  const args = ['-c', 'sleep 2.5; exec "$0" "$1" plain', process.execPath, SERVER];
  const { url } = await testGateway({ command: '/bin/sh', args });
  const whole = async (tool: string, message: string) => {
    const asked = await callTool(url, tool, {}, ADA);
    expect(JSON.stringify(asked.response.result.inputRequests)).toContain(`"${message}"`);
    return text(await callTool(url, tool, answersOf(asked, tool), ADA));
  };
  const calls = [whole('ask', 'Who are you?'), whole('inquire', 'And who are you?')];
  expect(await Promise.all(calls)).toEqual(['ask', 'inquire']);
});
