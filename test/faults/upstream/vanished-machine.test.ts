/**
 * The machine of a server vanishes, so that it takes no connection and refuses none, and comes back.
 * @module-tag long
 */
import { expect, test } from 'vitest';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import {
  answersOf,
  legacyServer,
  reasonOf,
  replica,
  text,
} from '../../fixtures/gateways/replica-testbed.ts';
import { blackHoleAt } from '../../fixtures/network/black-hole.ts';
import { freePort } from '../../fixtures/processes.ts';
import type { ToolCall } from '../../fixtures/servers/legacy/tools.ts';

/** Longer than what is waited for a server that was seen to hold its responses back, and shorter than for others. */
const standaloneAfterMs = 600;

const tools = {
  plain: async () => 'plain',
  /** Asks beside the stream of the call. */
  greet: async ({ server }: ToolCall) => {
    const requestedSchema = { type: 'object', properties: { name: { type: 'string' } } } as const;
    const { content } = await server.elicitInput({ message: 'Your name?', requestedSchema });
    return `Hello ${content?.['name']}`;
  },
};

test('a question that is asked after a machine has come back is shown, although the machine said nothing while it was away', async () => {
  const port = await freePort();
  const as = (user: string) => ({ headers: { authorization: `Bearer ${user}` } });
  const server = await legacyServer({ tools, port });
  const gateway = await replica(server, { relay: false });
  expect(text(await callTool(gateway.url, 'plain', {}, as('ada')))).toBe('plain');
  await server.stop();
  const away = await blackHoleAt(port);
  // Meanwhile the stream beside the calls of Ada is tried, too.
  expect(reasonOf(await callTool(gateway.url, 'plain', {}, as('bob')))).toBe(
    'upstream_unavailable',
  );
  await away.end();
  await legacyServer({ tools, port, standaloneAfterMs });
  const asked = await callTool(gateway.url, 'greet', {}, as('cyd'));
  const done = await callTool(gateway.url, 'greet', answersOf(asked, 'Cyd'), as('cyd'));
  expect(text(done)).toBe('Hello Cyd');
});
