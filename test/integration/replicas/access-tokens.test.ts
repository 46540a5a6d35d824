/** Callers whose access tokens each replica verifies by itself. */
import { expect, test } from 'vitest';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import {
  answersOf,
  greeter,
  legacyServer,
  reasonOf,
  redisServer,
  replica,
  replicas,
  text,
} from '../../fixtures/gateways/replica-testbed.ts';
import {
  AuthorizationServer,
  bearer,
  RESOURCE,
} from '../../fixtures/servers/authorization-server.ts';

// Rule tokens-12.
test(
  'a token that is over by the clock of the machine is refused, whatever the clock of Redis says',
  { tags: ['redis', 'faketime'] },
  async () => {
    const authorization = await AuthorizationServer.start();
    const { issuer, jwksUrl } = authorization;
    const legacy = await legacyServer({ tools: { greet: () => Promise.resolve('Hello') } });
    const { url: redis } = await redisServer();
    const identity = {
      source: 'jwt',
      issuer,
      audiences: [RESOURCE],
      jwks: { url: jwksUrl.href },
    };
    const options = { redis, config: { identity } };
    const ahead = await replica(legacy, { ...options, clockAheadSeconds: 86_400 });
    await ahead.saw('clock.skewed');
    const token = bearer(await authorization.token('ada'));
    expect((await callTool(ahead.url, 'greet', {}, token)).status).toBe(401);
    const right = await replica(legacy, options);
    expect((await callTool(right.url, 'greet', {}, token)).status).toBe(200);
  },
);

// Rule tokens-9.
test('a parked call goes on at another replica with a new token of its principal, and with no other', async () => {
  const authorization = await AuthorizationServer.start();
  const { issuer, jwksUrl } = authorization;
  const { tools, effects } = greeter();
  const legacy = await legacyServer({ tools });
  const jwks = { url: jwksUrl.href };
  const identity = { source: 'jwt', issuer, audiences: [RESOURCE], jwks };
  const [one, other] = await replicas(legacy, 2, { config: { identity } });
  const as = async (client: string) => bearer(await authorization.token(client));
  const asked = await callTool(one.url, 'greet', {}, await as('ada'));
  const retry = answersOf(asked, 'Ada');
  const refused = await callTool(other.url, 'greet', retry);
  expect(refused.status).toBe(401);
  expect(reasonOf(await callTool(other.url, 'greet', retry, await as('bob')))).toBe(
    'invalid_request_state',
  );
  expect(text(await callTool(other.url, 'greet', retry, await as('ada')))).toBe('Hello Ada');
  expect(await other.recoveries()).toEqual(['relay']);
  expect(effects).toEqual(['Ada']);
  expect(legacy.tokens('tools/call')).toEqual([undefined]);
});
