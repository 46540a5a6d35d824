import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  discoverResult,
  modernCapabilities,
} from '../../../../src/protocol/translate/edge-result.ts';
import type { JsonObject } from '../../../../src/protocol/json.ts';
import { objectsOf } from '../../../fixtures/arbitrary/json.ts';
import { initializeResult } from '../../../fixtures/arbitrary/legacy-messages.ts';
import { schemaProblems } from '../../../fixtures/wire/official-schema.ts';

const CONTEXT = {
  supportedVersions: ['2026-07-28'],
  ttlMs: 60_000,
  canReceiveNotifications: false,
  offersTasks: false,
  extensions: [],
};

// Rule discover-2 (server/discover, "DiscoverResult"): `instructions` and vendors' `_meta` members are unchanged, and
// `serverInfo` is in `_meta`.
test('what a legacy server said at initialize, in the terms of server/discover', () => {
  const initialized = {
    protocolVersion: '2025-06-18',
    capabilities: { tools: { listChanged: true }, logging: {} },
    serverInfo: { name: 's', version: '1', title: 'S' },
    instructions: 'Be kind.',
    _meta: { 'com.example/a': 1 },
  };
  expect(discoverResult(initialized, CONTEXT)).toEqual({
    resultType: 'complete',
    supportedVersions: ['2026-07-28'],
    capabilities: { tools: {}, logging: {} },
    instructions: 'Be kind.',
    ttlMs: 60_000,
    cacheScope: 'private',
    _meta: {
      'com.example/a': 1,
      'io.modelcontextprotocol/serverInfo': { name: 's', version: '1', title: 'S' },
    },
  });
});

// Rule discover-2.
test('a server that said nothing has no capabilities and no instructions', () => {
  expect(discoverResult({}, CONTEXT)).toEqual({
    resultType: 'complete',
    supportedVersions: ['2026-07-28'],
    capabilities: {},
    ttlMs: 60_000,
    cacheScope: 'private',
  });
});

// Rule discover-4 (versioning, "Extension Negotiation"; logging, "Capabilities"): `tools`, `prompts`, `resources`,
// `logging`, `completions`, MCP Apps, OpenAI's settings and `upstream.extensions` are declared as by the server.
// Other extensions are not.
describe('capabilities', () => {
  const all = {
    tools: { listChanged: true },
    prompts: { listChanged: true },
    resources: { subscribe: true, listChanged: true },
    logging: {},
    completions: {},
  };

  // Rule discover-5: `listChanged` and `subscribe` are declared if the server declares them and has a stream for
  // notifications.
  test('are kept with their flags where notifications can reach the client', () => {
    expect(modernCapabilities(all, true)).toEqual(all);
  });

  // Rule discover-5.
  test('promise no notifications where there is no way for them', () => {
    expect(modernCapabilities(all, false)).toEqual({
      tools: {},
      prompts: {},
      resources: {},
      logging: {},
      completions: {},
    });
  });

  // Rule discover-4.
  test('tell of extensions that work through a translation, and of no other', () => {
    const ui = { 'io.modelcontextprotocol/ui': { anything: [1] } };
    const extensions = { ...ui, 'io.modelcontextprotocol/tasks': {}, 'com.example/odd': {} };
    expect(modernCapabilities({ extensions }, true)).toEqual({ extensions: ui });
    expect(modernCapabilities({ extensions: { 'com.example/odd': {} } }, true)).toEqual({});
  });

  // Rule discover-4.
  test.each(['openai/settings', 'openai/mentions'])('tell of %s as it was sent', (id) => {
    const [sent, older] = [{ readTool: 'a', more: [1.5] }, { readTool: 'old' }];
    const told = (capabilities: JsonObject) => modernCapabilities(capabilities, true);
    expect(told({ extensions: { [id]: sent } })).toEqual({ extensions: { [id]: sent } });
    expect(told({ experimental: { [id]: older } })).toEqual({ extensions: { [id]: older } });
    const both = { experimental: { [id]: older }, extensions: { [id]: sent } };
    expect(told(both)).toEqual({ extensions: { [id]: sent } });
    expect(told({ extensions: { [id]: true }, experimental: { [id]: older } })).toEqual({
      extensions: { [id]: older },
    });
  });

  // Rule discover-4.
  test('tell of what the operator names, where the server declares it', () => {
    const odd = { 'com.example/odd': { a: 1 } };
    const named = ['com.example/odd', 'com.example/other', 'com.example/older'];
    const experimental = { 'com.example/older': {}, 'com.example/unnamed': {} };
    const declared = { extensions: odd, experimental };
    expect(modernCapabilities(declared, true, false, named)).toEqual({
      extensions: { ...odd, 'com.example/older': {} },
    });
  });

  // Rule discover-4.
  test('that a server did not declare are not invented', () => {
    expect(modernCapabilities({ tools: {} }, true)).toEqual({ tools: {} });
    const flags = { tools: { listChanged: false }, prompts: { listChanged: 'yes' } };
    expect(modernCapabilities(flags, true)).toEqual({ tools: {}, prompts: {} });
  });

  // Rule discover-4.
  test.each(['tasks', 'experimental', 'extensions', 'x-unknown'])(
    '%s is not advertised: the gateway could not honour it',
    (name) => {
      expect(modernCapabilities({ [name]: { 'io.modelcontextprotocol/tasks': {} } }, true)).toEqual(
        {},
      );
    },
  );
});

test('whatever initialize result a legacy server sends, discover is valid by the modern schema', () => {
  fc.assert(
    fc.property(initializeResult, fc.boolean(), (initialized, canReceiveNotifications) => {
      const revision = initialized['protocolVersion'] as '2025-11-25';
      const old = { jsonrpc: '2.0', id: 1, result: initialized };
      expect(schemaProblems(revision, 'to-client', old, 'initialize')).toEqual([]);
      const result = discoverResult(initialized, { ...CONTEXT, canReceiveNotifications });
      const message = { jsonrpc: '2.0', id: 1, result };
      expect(schemaProblems('2026-07-28', 'to-client', message, 'server/discover')).toEqual([]);
      expect(Object.keys(initialized['capabilities'] as JsonObject)).toEqual(
        expect.arrayContaining(Object.keys(result['capabilities'] as JsonObject)),
      );
    }),
  );
});

test('no malformed input makes it throw', () => {
  const nonsense = objectsOf([
    ...['capabilities', 'tools', 'resources', 'listChanged', 'subscribe', 'logging'],
    ...['serverInfo', 'instructions', '_meta', 'constructor'],
  ]);
  fc.assert(
    fc.property(nonsense, (initialized) => {
      expect(discoverResult(initialized, CONTEXT)['resultType']).toBe('complete');
    }),
    { numRuns: 300 },
  );
});
