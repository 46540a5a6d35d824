/** Headers by which servers know their users without `Authorization`, such as API keys, over several replicas. */
import { describe, expect, test } from 'vitest';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import {
  answersOf,
  greeter,
  legacyServer,
  reasonOf,
  replicas,
  text,
} from '../../fixtures/gateways/replica-testbed.ts';
import { monitored, overseer } from '../../fixtures/redis/redis-topologies.ts';
import { RELAY_WAYS } from '../../fixtures/relay-ways.ts';
import { countingServer } from '../../fixtures/servers/counting-server.ts';
import type { LegacyServer } from '../../fixtures/servers/legacy-server.ts';

const KEYS = { identity: { credentialHeaders: ['X-API-Key'] } };
const as = (key: string) => ({ headers: { 'x-api-key': key } });

const forwarding = ({ url }: LegacyServer) => ({
  upstream: { url, forwardHeaders: ['X-API-Key'] },
});

for (const { way, tags, options } of RELAY_WAYS)
  describe(`an API key with replicas that relay ${way}`, { tags, timeout: 90_000 }, () => {
    // Rule envelope-5.
    test('goes to the server with the retry that brings it, and nobody else reads it', async () => {
      const { tools } = greeter();
      const legacy = await legacyServer({ tools });
      const { config, ...ways } = await options();
      const written: string[] = [];
      if (ways.redis !== undefined) {
        await monitored(overseer(ways.redis), (words) => written.push(words.join(' ')));
      }
      const [one, other] = await replicas(legacy, 2, {
        ...ways,
        route: forwarding(legacy),
        config: { ...config, ...KEYS },
      });
      const asked = await callTool(one.url, 'greet', {}, as('key-of-ada'));
      const retry = answersOf(asked, 'Ada');
      const stolen = await callTool(other.url, 'greet', retry, as('key-of-bob'));
      expect(reasonOf(stolen)).toBe('invalid_request_state');
      expect(text(await callTool(other.url, 'greet', retry, as('key-of-ada')))).toBe('Hello Ada');
      expect(await other.recoveries()).toEqual(['relay']);
      const called = legacy.received.filter(({ method }) =>
        ['tools/call', 'response'].includes(method),
      );
      expect(called.map(({ headers }) => headers['x-api-key'])).toEqual([
        'key-of-ada',
        'key-of-ada',
      ]);
      for (const gateway of [one, other]) await gateway.written('audit');
      const logged = JSON.stringify([one.lines(), other.lines()]);
      expect(logged).not.toContain('key-of');
      expect(written.join('\n')).not.toContain('key-of');
    });
  });

// Rule envelope-5.
test('an API key goes with every message to a server over HTTP+SSE', async () => {
  const { tools } = greeter();
  const legacy = await legacyServer({ tools, transport: 'http-sse' });
  const [gateway] = await replicas(legacy, 1, { route: forwarding(legacy), config: KEYS });
  const asked = await callTool(gateway.url, 'greet', {}, as('key-of-ada'));
  const more = answersOf(asked, 'Ada');
  expect(text(await callTool(gateway.url, 'greet', more, as('key-of-ada')))).toBe('Hello Ada');
  const { received } = legacy;
  const session = received.find(({ method }) => method === 'tools/call')?.session;
  const sent = received.filter((message) => message.session === session);
  expect(sent.map(({ method }) => method)).toEqual(
    expect.arrayContaining(['initialize', 'tools/call', 'response']),
  );
  for (const { headers } of sent) expect(headers['x-api-key']).toBe('key-of-ada');
  await gateway.written('audit');
  expect(JSON.stringify(gateway.lines())).not.toContain('key-of');
});

// Rule callers-8: Without `identity.source: jwt`, callers with different values of `Authorization` or
// `identity.credentialHeaders` share no session, parked call or cached list.
test('an API key has a session of its own, and so has each user of it', async () => {
  const counting = await countingServer();
  const { server } = counting;
  const identity = { source: 'header', header: 'X-User', ...KEYS.identity };
  const [gateway] = await replicas(server, 1, { route: forwarding(server), config: { identity } });
  const counts: unknown[] = [];
  for (const [user, key] of [
    ['ada', 'a'],
    ['ada', 'b'],
    ['bob', 'a'],
    ['ada', 'a'],
  ] as const) {
    const headers = { 'x-user': user, 'x-api-key': key, 'x-other': String(counts.length) };
    counts.push(text(await callTool(gateway.url, 'count', {}, { headers })));
  }
  expect(counts).toEqual(['1', '1', '1', '2']);
});
