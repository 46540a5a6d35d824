/** Callers whose access tokens each replica verifies by itself. */
import { expect, test } from 'vitest';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import {
  answersOf,
  greeter,
  legacyServer,
  reasonOf,
  replicas,
  text,
} from '../../fixtures/gateways/replica-testbed.ts';
import {
  AuthorizationServer,
  bearer,
  RESOURCE,
} from '../../fixtures/servers/authorization-server.ts';

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
  expect(await other.rungs()).toEqual(['relay']);
  expect(effects).toEqual(['Ada']);
  expect(legacy.tokens('tools/call')).toEqual([undefined]);
});
