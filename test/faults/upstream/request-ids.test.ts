/** The ids of the gateway's requests to its server, as the server gets them. */
import { expect, test } from 'vitest';
import {
  answersOf,
  greeter,
  legacyServer,
  replica,
  text,
} from '../../fixtures/gateways/replica-testbed.ts';
import { callTool, send } from '../../fixtures/clients/modern-client.ts';

// Rule wire-3 (2025-11-25 basic, "Requests"): Request ids upstream are random integers from 2^52 to 2^53 - 1, or
// random texts for servers that cut ids to 32 bits.
test('no id of a request is given again: not by another session, process or restart, nor after a reattach', async () => {
  const { tools } = greeter();
  const legacy = await legacyServer({ tools, keepsEvents: true });
  const call = async (url: string) => {
    const asked = await callTool(url, 'greet');
    return callTool(url, 'greet', answersOf(asked, 'Ada'));
  };
  const one = await replica(legacy);
  await Promise.all([call(one.url), call(one.url), send(one.url, 'tools/list')]);
  const other = await replica(legacy);
  const asked = await callTool(one.url, 'greet');
  await one.kill();
  expect(text(await callTool(other.url, 'greet', answersOf(asked, 'Ada')))).toBe('Hello Ada');
  await other.kill();
  const restarted = await replica(legacy);
  await Promise.all([call(restarted.url), call(restarted.url), call(restarted.url)]);

  const requests = legacy.received.filter(({ body }) => body.method && body.id !== undefined);
  const ids: number[] = requests.map(({ body }) => body.id).filter((id) => typeof id === 'number');
  expect(new Set(ids).size).toBe(ids.length);
  expect(ids.length).toBeGreaterThan(10);
  for (const id of ids) {
    expect(Number.isSafeInteger(id)).toBe(true);
    expect(id).toBeGreaterThanOrEqual(2 ** 48);
  }
  const calls = requests.filter(({ method }) => method === 'tools/call');
  expect(calls.map(({ body }) => body.params._meta.progressToken)).toEqual(
    calls.map(({ body }) => body.id),
  );
});
