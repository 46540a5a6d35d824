import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { TokenExchange } from '../../../src/identity/token-exchange.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

interface Asked {
  readonly authorization: string | undefined;
  readonly form: URLSearchParams;
}

async function endpoint(answer: (response: ServerResponse, count: number) => void) {
  const asked: Asked[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (chunk: string) => (body += chunk));
    request.on('end', () => {
      const { authorization } = request.headers;
      asked.push({ authorization, form: new URLSearchParams(body) });
      answer(response, asked.length);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  stopAfterTest(async () => {
    server.closeAllConnections();
    server.close();
  });
  const clock = new ManualClock();
  const problems: string[] = [];
  const { port } = server.address() as AddressInfo;
  const exchange = new TokenExchange({
    config: {
      tokenEndpoint: new URL(`http://127.0.0.1:${port}/token`),
      clientId: 'the gateway',
      clientSecret: 'a:b&c',
      resource: 'https://server/mcp',
      scopes: ['a', 'b'],
    },
    clock,
    onFailure: (problem) => problems.push(problem),
  });
  return { asked, clock, problems, exchange };
}

const reply = (response: ServerResponse, status: number, body: unknown) =>
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));

// Rule exchange-1.
test('a token is exchanged again when the new one has nearly expired', async () => {
  const { asked, clock, exchange } = await endpoint((response, count) =>
    reply(response, 200, { access_token: `t${count}`, token_type: 'bearer', expires_in: 100 }),
  );
  const next = async () => {
    const exchanged = await exchange.exchange('subject');
    return exchanged.kind === 'token' ? exchanged.authorization : exchanged.kind;
  };
  expect(await Promise.all([next(), next()])).toEqual(['Bearer t1', 'Bearer t1']);
  clock.advance(89_999);
  expect(await next()).toBe('Bearer t1');
  clock.advance(2);
  expect(await next()).toBe('Bearer t2');
  expect(asked[0]?.authorization).toBe(`Basic ${btoa('the+gateway:a%3Ab%26c')}`);
  expect(Object.fromEntries(asked[0]?.form ?? [])).toEqual({
    grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
    subject_token: 'subject',
    subject_token_type: 'urn:ietf:params:oauth:token-type:access_token',
    requested_token_type: 'urn:ietf:params:oauth:token-type:access_token',
    resource: 'https://server/mcp',
    scope: 'a b',
  });
});

// Rule exchange-2.
test.each<[number, unknown, string]>([
  [200, { access_token: 'a', token_type: 'N_A' }, 'failed'],
  [200, { access_token: 'a\r\nx: y', token_type: 'Bearer' }, 'failed'],
  [200, 'text', 'failed'],
  [400, { error: 'invalid_grant' }, 'invalid'],
  [400, { error: 'invalid_request' }, 'invalid'],
  [400, { error: 'invalid_target' }, 'forbidden'],
  [403, { error: 'access_denied' }, 'forbidden'],
  [401, { error: 'invalid_client' }, 'failed'],
  [400, { error: 'unsupported_grant_type' }, 'failed'],
  [400, { error: 'a secret, "quoted"' }, 'failed'],
  [500, { error: 'invalid_grant' }, 'failed'],
  [302, {}, 'failed'],
])('%d with %j: %s, which is kept for a moment', async (status, body, kind) => {
  const { asked, clock, problems, exchange } = await endpoint((response) =>
    reply(response, status, body),
  );
  expect((await exchange.exchange('subject')).kind).toBe(kind);
  clock.advance(1_999);
  expect((await exchange.exchange('subject')).kind).toBe(kind);
  expect(asked).toHaveLength(1);
  clock.advance(2);
  expect((await exchange.exchange('subject')).kind).toBe(kind);
  expect(asked).toHaveLength(2);
  expect(problems).toHaveLength(2);
  expect(problems.join()).not.toMatch(/secret|subject/);
});
