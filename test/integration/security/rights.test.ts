/** Rules on who may use which tools, prompts and resources, for clients whose requests are translated. */
import { describe, expect, test } from 'vitest';
import {
  AuthorizationServer,
  bearer,
  RESOURCE,
} from '../../fixtures/servers/authorization-server.ts';
import { callTool, send, type SendOptions } from '../../fixtures/clients/modern-client.ts';
import { DialectClient } from '../../fixtures/clients/dialect-client.ts';
import { TASK_CLIENT } from '../../fixtures/clients/task-client.ts';
import type { GatewayOverrides } from '../../fixtures/gateways/gateway.ts';
import { answersOf, text } from '../../fixtures/gateways/replica-testbed.ts';
import { allow, FREE, ONLY_READ, restricted } from '../../fixtures/gateways/rights-testbed.ts';
import { askName } from '../../fixtures/servers/legacy-server.ts';
import { foldedPattern } from '../../../src/limits/rights.ts';

const unknown = (message: string) => ({ error: { code: -32602, message } });

describe('what a caller may not use', () => {
  // Rule rights-1 (tools, "Error Handling"; prompts; resources): What the rules do not allow is refused as if it did
  // not exist, and nothing of the request reaches the server.
  test.each([
    ['tools/call', { name: 'delete', arguments: {} }, 'Unknown tool: delete'],
    ['tools/call', { name: 'Read', arguments: {} }, 'Unknown tool: Read'],
    ['prompts/get', { name: 'secret' }, 'Unknown prompt: secret'],
    ['resources/read', { uri: 'key://1' }, 'Resource not found: key://1'],
    [
      'completion/complete',
      { ref: { type: 'ref/prompt', name: 'secret' }, argument: { name: 'a', value: '' } },
      'Unknown prompt: secret',
    ],
    [
      'subscriptions/listen',
      { notifications: { resourceSubscriptions: ['doc://1', 'key://1'] } },
      'Resource not found: key://1',
    ],
  ])('is refused as if it did not exist: %s %j', async (method, params, message) => {
    const { effects, server, gateway, url } = await restricted();
    // The session opens without anything of the request.
    await callTool(url, 'read');
    const before = server.received.length;
    const refused = await send(url, method, params);
    expect([refused.status, refused.response]).toMatchObject([200, unknown(message)]);
    expect(server.received.slice(before)).toEqual([]);
    expect(effects).toEqual(['read']);
    expect(gateway.log.named('rights.refused')).toMatchObject([{ route: 'mcp', reason: 'hidden' }]);
  });

  // Rule rights-1.
  test('is refused on every retry of a call', async () => {
    const effects: string[] = [];
    const tools = {
      read: async (call: Parameters<typeof askName>[0]) => {
        effects.push(await askName(call));
        return 'done';
      },
    };
    const { server, url } = await restricted(ONLY_READ, { tools });
    const asked = await callTool(url, 'read');
    const { requestState, inputResponses } = answersOf(asked, 'Mallory');
    const before = server.received.length;
    const retried = await callTool(url, 'delete', { requestState, inputResponses });
    expect(retried.response).toMatchObject(unknown('Unknown tool: delete'));
    expect(server.received.slice(before)).toEqual([]);
    expect(text(await callTool(url, 'read', answersOf(asked, 'Ada')))).toBe('done');
    expect(effects).toEqual(['Ada']);
  });

  // Rule rights-1.
  test('becomes no task', async () => {
    const { effects, url } = await restricted({ ...ONLY_READ, tasks: { promote: 'always' } });
    const refused = await callTool(url, 'delete', {}, TASK_CLIENT as SendOptions);
    expect(refused.response).toMatchObject(unknown('Unknown tool: delete'));
    expect(effects).toEqual([]);
  });

  // Rule rights-1.
  test('is refused whatever token a saga is resumed with', async () => {
    const overrides = { ...ONLY_READ, dialects: { sagas: '/drafts/sagas' } };
    const { effects, gateway } = await restricted(overrides);
    const client = await DialectClient.connect(gateway.url, '/drafts/sagas');
    const called = await client.send({
      ...{ jsonrpc: '2.0', id: 1, method: 'tools/callSaga' },
      params: { name: 'delete', arguments: {} },
    });
    expect(called).toMatchObject(unknown('Unknown tool: delete'));
    // Any client can write a token.
    const forged = { method: 'tools/call', params: { name: 'delete' }, requestState: 'x' };
    const sagaToken = Buffer.from(JSON.stringify(forged)).toString('base64url');
    const resumed = await client.send({
      ...{ jsonrpc: '2.0', id: 2, method: 'tools/resumeSaga' },
      params: { sagaToken, completedSteps: [] },
    });
    expect(resumed).toMatchObject(unknown('Unknown tool: delete'));
    expect(effects).toEqual([]);
  });

  // Rule rights-1.
  test.each(['DELETE', 'delete ', 'de\u200blete', 'ｄｅｌｅｔｅ', 'del\u00adete'])(
    'is denied in the spelling %j, too',
    async (name) => {
      const tools = { ...FREE, deny: [foldedPattern('tool', 'delete')] };
      const { effects, url } = await restricted({ tools }, { tools: { [name]: async () => 'x' } });
      const encoded = `=?base64?${Buffer.from(name).toString('base64')}?=`;
      const refused = await callTool(url, name, {}, { headers: { 'mcp-name': encoded } });
      expect(refused.response).toMatchObject(unknown(`Unknown tool: ${name}`));
      expect(effects).toEqual([]);
    },
  );

  // Rule rights-4: A message with a duplicate or misspelled member, which another parser could read differently, is
  // refused on a route with rules.
  test('cannot be named beside what is allowed', async () => {
    const { effects, url } = await restricted();
    for (const more of [{ Name: 'delete' }, { NAME: 'delete' }, { nAme: 'delete' }]) {
      const refused = await callTool(url, 'read', more);
      expect(refused.response.error.code, JSON.stringify(more)).toBe(-32600);
    }
    expect(effects).toEqual([]);
  });
});

// Rule rights-3: Lists leave out what their caller cannot use, except passed-through lists that the server compresses
// unasked.
test.each([0, 60_000])(
  'lists show what their caller may use, kept for %i ms',
  async (listTtlMs) => {
    const { url } = await restricted({ ...ONLY_READ, caching: { listTtlMs } });
    for (let times = 0; times < 2; times += 1) {
      const tools = await send(url, 'tools/list');
      expect(tools.response.result.tools.map(nameOf)).toEqual(['read']);
      const prompts = await send(url, 'prompts/list');
      expect(prompts.response.result.prompts.map(nameOf)).toEqual(['plain']);
      const resources = await send(url, 'resources/list');
      expect(resources.response.result.resources.map(nameOf)).toEqual(['doc://1']);
    }
  },
);

const nameOf = ({ name }: { readonly name: string }) => name;

describe('rules on tokens', () => {
  const METADATA_URL = 'https://mcp.example.com/.well-known/oauth-protected-resource/mcp';
  const RULES = {
    ...FREE,
    allow: ['read'],
    rules: [
      { names: ['delete'], scopes: ['mcp:admin'], claims: {} },
      { names: ['ask'], scopes: [], claims: { client_id: ['bob'] } },
    ],
  };

  async function guarded(mode: 'strict' | 'optional', overrides: GatewayOverrides = {}) {
    const issuer = await AuthorizationServer.start();
    const identity = {
      ...({ source: 'jwt', mode, issuer: issuer.issuer, audiences: [RESOURCE] } as const),
      jwks: { url: issuer.jwksUrl, file: null },
      requiredScopes: mode === 'strict' ? ['mcp:tools'] : [],
      principalClaim: 'sub',
      resourceMetadata: { resource: RESOURCE, scopesSupported: [] },
      credentialHeaders: [],
    };
    const upstream = { authorization: 'strip' } as const;
    const ground = await restricted({ identity, upstream, tools: RULES, ...overrides });
    const as = async (client: string, scope = 'mcp:tools') =>
      bearer(await issuer.token(client, { scope }));
    return { ...ground, as };
  }

  // Rule rights-2 (authorization, "Runtime Insufficient Scope Errors"): A rule allows callers whose token has all its
  // scopes and one value of each claim. Missing scopes get 403 with `error="insufficient_scope"`, and a missing token
  // 401.
  test('let a caller in whose token has the scopes, and say to others which ones it needs', async () => {
    const { effects, gateway, url, as } = await guarded('strict');
    const refused = await callTool(url, 'delete', {}, await as('ada'));
    const needed = 'An access token with these scopes is required: mcp:tools mcp:admin';
    expect([refused.status, refused.response.error]).toMatchObject([
      403,
      { code: -32600, message: needed, data: { mayHaveActed: 'no' } },
    ]);
    expect(refused.headers.get('www-authenticate')).toBe(
      `Bearer error="insufficient_scope", error_description="${needed}", scope="mcp:tools mcp:admin", resource_metadata="${METADATA_URL}"`,
    );
    expect(effects).toEqual([]);
    const admin = await as('ada', 'mcp:tools mcp:admin');
    expect(text(await callTool(url, 'delete', {}, admin))).toBe('delete');
    expect(gateway.log.named('rights.refused')).toEqual([
      {
        ...{ route: 'mcp', reason: 'lacks-scopes', kind: 'tool', name: 'delete', requests: 1 },
        who: expect.stringMatching(/^[\w-]{16}$/),
      },
    ]);
  });

  // Rule rights-2.
  test('let a caller in whose token has the claims, and hide it from others', async () => {
    const { effects, url, as } = await guarded('strict', {});
    const refused = await callTool(url, 'ask', {}, await as('ada'));
    expect(refused.response).toMatchObject(unknown('Unknown tool: ask'));
    const listed = async (client: string, scope?: string) =>
      (await send(url, 'tools/list', {}, await as(client, scope))).response.result.tools.map(
        nameOf,
      );
    expect(await listed('ada')).toEqual(['read']);
    expect(await listed('ada', 'mcp:tools mcp:admin')).toEqual(['read', 'delete']);
    expect(await listed('bob')).toEqual(['read']);
    expect(effects).toEqual([]);
    const allowed = await callTool(url, 'ask', {}, await as('bob'));
    // It came through: the server has no such tool.
    expect(allowed.response.error.message).toMatch(/no tool ask/);
  });

  // Rule rights-2.
  test('ask a caller without a token for one', async () => {
    const { url } = await guarded('optional');
    expect(text(await callTool(url, 'read'))).toBe('read');
    const refused = await callTool(url, 'delete');
    expect(refused.status).toBe(401);
    expect(refused.headers.get('www-authenticate')).toBe(
      `Bearer scope="mcp:admin", resource_metadata="${METADATA_URL}"`,
    );
  });
});

// Rule rights-5: Each refusal by rules is counted, and logged at most once a minute for each caller.
test('refusals are counted and logged, with no line for each', async () => {
  const identity = { source: 'header', header: 'x-user' } as const;
  const { gateway, url } = await restricted({ ...ONLY_READ, identity, admin: true });
  const as = (user: string) => ({ headers: { 'x-user': user } });
  for (let times = 0; times < 3; times += 1) {
    await send(url, 'resources/read', { uri: 'key://a:b@1?token=c' }, as('Ada'));
  }
  await callTool(
    url,
    'delete\n',
    {},
    { headers: { 'x-user': 'Bob', 'mcp-name': '=?base64?ZGVsZXRlCg==?=' } },
  );
  const lines = gateway.log.named('rights.refused');
  expect(lines).toMatchObject([
    { kind: 'resource', name: 'key://1', requests: 1 },
    { kind: 'tool', name: 'delete', requests: 1 },
  ]);
  expect(new Set(lines.map(({ who }) => who)).size).toBe(2);
  expect(JSON.stringify(lines)).not.toMatch(/Ada|Bob|token/);
  const metrics = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
  expect(metrics).toContain('mrtr_gateway_rights_refusals_total{route="mcp",reason="hidden"} 4');
  expect(metrics).toContain('mrtr_gateway_rights_refusals_total{route="mcp",reason="unclear"} 0');
});

// Rule rights-1.
test('a list that allows nothing allows nothing', async () => {
  const { url } = await restricted({ tools: allow() });
  expect((await send(url, 'tools/list')).response.result.tools).toEqual([]);
  expect((await callTool(url, 'read')).response).toMatchObject(unknown('Unknown tool: read'));
});
