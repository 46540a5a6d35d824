/** What a legacy server says, however it says it, and what no modern client may ever hear from it. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Notifications } from '../../../../src/calls/notifications.ts';
import { outcomeOfReply } from '../../../../src/calls/call/replies.ts';
import { discoverResult, completeResult } from '../../../../src/protocol/translate/edge-result.ts';
import { edgeError } from '../../../../src/protocol/translate/error-map.ts';
import { translateServerRequest } from '../../../../src/protocol/translate/input-request.ts';
import type { ClientRequestId } from '../../../../src/protocol/ids.ts';
import type { JsonObject, JsonValue } from '../../../../src/protocol/json.ts';
import { Listener } from '../../../../src/subscriptions/filter.ts';
import { arbitraryJson, objectsOf, unknownMeta } from '../../../fixtures/arbitrary/json.ts';
import { results } from '../../../fixtures/arbitrary/legacy-messages.ts';

const METHODS = [...Object.keys(results('2025-11-25')), 'unknown'];
const FORGED = 'forged by the server';
const RESERVED = [
  ...['protocolVersion', 'clientCapabilities', 'clientInfo', 'logLevel', 'serverInfo'],
  ...['subscriptionId', 'related-task', 'anything'],
].map((name) => `io.modelcontextprotocol/${name}`);
const OURS = ['mrtr-gateway/reason', 'mrtr-gateway/x'];
const OF_EXTENSIONS = ['com.mcp/a', 'io.modelcontextprotocol.skills/a'];

/** A `_meta` in which a server says what is not its to say, among what may be there. */
const forgedMeta: fc.Arbitrary<JsonObject> = fc
  .tuple(fc.subarray([...RESERVED, ...OURS], { minLength: 1 }), unknownMeta)
  .map(([names, vendor]) => ({
    ...vendor,
    ...Object.fromEntries(names.map((name) => [name, FORGED])),
  }));
const block = fc.record({
  type: fc.constant('text'),
  text: fc.string(),
  _meta: forgedMeta,
});
const forged = {
  resultType: fc.constantFrom('input_required', 'task', FORGED),
  inputRequests: fc.constant({ forged: FORGED }),
  requestState: fc.constant(FORGED),
  ttlMs: fc.integer({ min: 1, max: 9 }),
  cacheScope: fc.constant('public'),
  _meta: forgedMeta,
};
/** Parts of every message that has any, each with a `_meta` of its own. */
const parts = {
  content: fc.oneof(fc.array(block, { maxLength: 2 }), block),
  contents: fc.array(fc.record({ uri: fc.constant('a:b'), _meta: forgedMeta }), { maxLength: 2 }),
  messages: fc.array(fc.record({ role: fc.constant('user'), content: block, _meta: forgedMeta }), {
    maxLength: 2,
  }),
  tools: fc.array(fc.record({ name: fc.string(), _meta: forgedMeta }), { maxLength: 2 }),
  prompts: fc.array(fc.record({ name: fc.string(), _meta: forgedMeta }), { maxLength: 2 }),
  resources: fc.array(fc.record({ resource: block, _meta: forgedMeta }), { maxLength: 2 }),
  resourceTemplates: fc.array(fc.record({ _meta: forgedMeta }), { maxLength: 2 }),
};
const nonsense = objectsOf([
  ...['_meta', 'content', 'resource', 'tools', 'messages', 'data', 'resultType', 'requestState'],
  ...RESERVED,
  ...OURS,
]);
/** With any of these members, or made of their names at random. */
const said: fc.Arbitrary<JsonObject> = fc
  .tuple(
    nonsense,
    fc.record({ ...forged, ...parts }, { requiredKeys: ['_meta'], noNullPrototype: true }),
  )
  .map(([other, known]): JsonObject => ({ ...other, ...(known as JsonObject) }));

/** Every name in a `_meta`, wherever the value has one that the protocol defines. */
function metaNames(value: JsonValue | undefined): string[] {
  if (Array.isArray(value)) return value.flatMap(metaNames);
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([member, inner]) => {
    if (member === '_meta') return inner === null ? [] : Object.keys(inner);
    return Object.hasOwn(parts, member) || member === 'resource' ? metaNames(inner) : [];
  });
}

function expectNothingForged(heard: JsonObject | undefined, ...ours: string[]): void {
  const names = metaNames(heard).filter((name) => !ours.includes(name));
  expect(names.filter((name) => /^(io\.modelcontextprotocol|mrtr-gateway)\//.test(name))).toEqual(
    [],
  );
  for (const member of ['inputRequests', 'requestState'])
    expect(heard ?? {}).not.toHaveProperty(member);
  const meta = heard?.['_meta'] as JsonObject | undefined;
  expect(Object.keys(meta ?? {}).filter((name) => OF_EXTENSIONS.includes(name))).toEqual([]);
}

const RUNS = { numRuns: 300 };
const SERVER_INFO = 'io.modelcontextprotocol/serverInfo';
const SUBSCRIPTION_ID = 'io.modelcontextprotocol/subscriptionId';
const serverInfo = { name: 's', version: '1' };

describe('nothing that only a modern server or the gateway may say passes', () => {
  // Rule results-2.
  test('in a result, with or without the name of the server', () => {
    fc.assert(
      fc.property(fc.constantFrom(...METHODS), said, fc.boolean(), (method, result, isKnown) => {
        const context = { serverInfo: isKnown ? serverInfo : null };
        const heard = completeResult(method, result, context);
        expectNothingForged(heard, ...(isKnown ? [SERVER_INFO] : []));
        expect(heard['resultType']).toBe('complete');
        expect((heard['_meta'] as JsonObject | undefined)?.[SERVER_INFO]).toEqual(
          isKnown ? serverInfo : undefined,
        );
        expect([undefined, 0]).toContain(heard['ttlMs']);
        expect([undefined, 'private']).toContain(heard['cacheScope']);
      }),
      RUNS,
    );
  });

  // Rule results-2.
  test('in the result of server/discover', () => {
    fc.assert(
      fc.property(said, (initialized) => {
        const heard = discoverResult(
          { ...initialized, serverInfo },
          {
            supportedVersions: ['2026-07-28'],
            ttlMs: 5,
            canReceiveNotifications: true,
            offersTasks: false,
            extensions: [],
          },
        );
        expectNothingForged(heard, SERVER_INFO);
        expect(heard).toMatchObject({ resultType: 'complete', ttlMs: 5, cacheScope: 'private' });
      }),
      RUNS,
    );
  });

  // Rule results-2.
  test('in the data of an error, with or without capabilities that the client lacks', () => {
    const code = fc.constantFrom(-32002, -32042, -32601, -32602, -32603, -32000, 7);
    const required = fc.constantFrom(null, { sampling: {} });
    fc.assert(
      fc.property(
        fc.constantFrom(...METHODS),
        code,
        said,
        required,
        (method, code, data, lacks) => {
          const sent = { code, message: 'm', data };
          const outcome = outcomeOfReply(method, { error: sent }, lacks);
          const failed = outcome.kind === 'failed' ? outcome.failure.error : undefined;
          for (const error of [failed, edgeError(method, sent).error]) {
            const { upstream, ...plain } = (error?.data ?? {}) as JsonObject;
            expectNothingForged(plain);
            expectNothingForged((upstream as JsonObject | undefined)?.['data'] as JsonObject);
            expect(plain).not.toHaveProperty('resultType');
          }
        },
      ),
      RUNS,
    );
  });

  // Rule results-2.
  test('in a notification of progress, or a log message', () => {
    const method = fc.constantFrom('notifications/progress', 'notifications/message');
    fc.assert(
      fc.property(method, said, (method, params) => {
        const heard: JsonObject[] = [];
        const waiter = {
          closed: new AbortController().signal,
          notify: (_method: string, params: JsonObject) => heard.push(params),
        };
        const sent = { ...params, progress: 1, level: 'error', progressToken: 'own' };
        const listeners = [{ waiter, request: { progressToken: 5, logLevel: 'debug' } }];
        new Notifications().deliver(method, sent, listeners);
        expect(heard).toHaveLength(1);
        expectNothingForged(heard[0]);
        expect(heard[0]).not.toHaveProperty('resultType');
      }),
      RUNS,
    );
  });

  // Rule results-2.
  test('in a change that listeners hear of, whose subscription id is theirs', () => {
    fc.assert(
      fc.property(said, (params) => {
        const heard: JsonObject[] = [];
        const waiter = {
          closed: new AbortController().signal,
          notify: (_method: string, params: JsonObject) => heard.push(params),
        };
        const filter = {
          toolsListChanged: true,
          promptsListChanged: false,
          resourcesListChanged: false,
          resourceSubscriptions: [],
        };
        const listener = new Listener('mine' as ClientRequestId, filter, waiter);
        listener.acknowledge(filter);
        listener.hear('notifications/tools/list_changed', params);
        expectNothingForged(heard[1], SUBSCRIPTION_ID);
        expect(heard[1]).toMatchObject({ _meta: { [SUBSCRIPTION_ID]: 'mine' } });
      }),
      RUNS,
    );
  });

  // Rule results-2.
  test('in a question of any kind', () => {
    const asked = fc.constantFrom<[string, JsonObject]>(
      ['roots/list', {}],
      ['sampling/createMessage', { messages: [] }],
      ['elicitation/create', { mode: 'url', message: 'm', url: 'https://a.example/' }],
      [
        'elicitation/create',
        { mode: 'form', message: 'm', requestedSchema: { type: 'object', properties: {} } },
      ],
    );
    const profile = {
      ...{ elicitationForm: true, elicitationUrl: true, sampling: true, samplingTools: true },
      ...{ samplingContext: true, roots: true, extensions: {} },
    };
    fc.assert(
      fc.property(asked, said, ([method, required], more) => {
        const messages = Array.isArray(more['messages']) ? more['messages'] : [];
        const params = { ...more, ...required, messages };
        const heard = translateServerRequest(method, params, profile, '2025-11-25');
        if (heard.type === 'refuse') throw new Error(heard.reason);
        expectNothingForged(heard.request.params);
        expect(heard.request.params).not.toHaveProperty('resultType');
      }),
      RUNS,
    );
  });
});

describe('all else passes', () => {
  // Rule results-2.
  test('what a tool gives as data is its own, reserved names included', () => {
    const data = { _meta: { 'io.modelcontextprotocol/serverInfo': 1 }, resultType: 'x' };
    const result = { content: [{ type: 'text', text: '' }], structuredContent: data };
    expect(completeResult('tools/call', result, { serverInfo: null })).toMatchObject(result);
  });

  test('vendors’ members, and those of extensions in tools and resources', () => {
    const kept = {
      ui: { resourceUri: 'ui://a' },
      'io.modelcontextprotocol.skills/a': 1,
      'x.y/z': 2,
    };
    const contents = [{ uri: 'a:b', text: '', _meta: { ...kept, [SUBSCRIPTION_ID]: 'x' } }];
    expect(
      completeResult('resources/read', { contents }, { serverInfo: null })['contents'],
    ).toEqual([{ uri: 'a:b', text: '', _meta: kept }]);
  });

  test('the data of an error that is no object', () => {
    fc.assert(
      fc.property(arbitraryJson, (data) => {
        fc.pre(typeof data !== 'object' || data === null || Array.isArray(data));
        expect(edgeError('tools/call', { code: 7, message: 'm', data }).error.data).toEqual(data);
      }),
    );
  });
});
