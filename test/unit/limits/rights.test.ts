import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  foldedPattern,
  mayCall,
  withoutHidden,
  type KindRights,
  type Rights,
  type TargetKind,
} from '../../../src/limits/rights.ts';
import { denialOf } from '../../../src/limits/targets.ts';
import type { ClaimValue } from '../../../src/model/request.ts';
import type { JsonObject } from '../../../src/protocol/json.ts';

const FREE: KindRights = { allow: null, deny: [], rules: null };

/** Rules as a file has them: what is denied is not folded yet. */
function rights(changes: Partial<Record<TargetKind, Partial<KindRights>>>): Rights {
  const of = (kind: TargetKind): KindRights => {
    const { deny = [], ...others } = changes[kind] ?? {};
    return { ...FREE, ...others, deny: deny.map((one) => foldedPattern(kind, one)) };
  };
  return { tools: of('tool'), prompts: of('prompt'), resources: of('resource') };
}

function caller(
  scopes: readonly string[] = [],
  claims: Record<string, readonly ClaimValue[]> = {},
) {
  return { grants: { scopes: new Set(scopes), claims: new Map(Object.entries(claims)) } };
}

const NOBODY = {};
const HIDDEN = { type: 'hidden' };
const ALLOWED = { type: 'allowed' };

describe('what a caller may use', () => {
  test('is everything where there are no rules for its kind', () => {
    expect(mayCall(rights({ prompt: { allow: [] } }), NOBODY, 'tool', 'anything')).toEqual(ALLOWED);
  });

  test('is what is allowed, and no other spelling of it', () => {
    const some = rights({ tool: { allow: ['read', 'list_*'] } });
    for (const name of ['read', 'list_', 'list_all']) {
      expect(mayCall(some, NOBODY, 'tool', name)).toEqual(ALLOWED);
    }
    for (const name of ['Read', 'read ', 'reader', 'list', 'ｒead', 'rea\u200bd', '']) {
      expect(mayCall(some, NOBODY, 'tool', name), name).toEqual(HIDDEN);
    }
  });

  test('is nothing with a name that takes long to decide on', () => {
    const some = rights({ tool: { allow: ['*'] } });
    expect(mayCall(some, NOBODY, 'tool', 'a'.repeat(8_193))).toEqual(HIDDEN);
  });

  test('is nothing if the list of what is allowed is empty', () => {
    expect(mayCall(rights({ tool: { allow: [] } }), NOBODY, 'tool', 'read')).toEqual(HIDDEN);
  });

  test('is not what is denied, in whatever spelling, although it is allowed', () => {
    const some = rights({ tool: { allow: ['*'], deny: ['delete', 'Straße', 'drop_*'] } });
    for (const name of [
      'delete',
      'DELETE',
      ' delete\t',
      'de\u200blete',
      'ｄｅｌｅｔｅ',
      'del\u00adete',
      'delete\0',
      'strasse',
      'STRAẞE',
      'Drop_table',
      'drop _ table',
    ]) {
      expect(mayCall(some, NOBODY, 'tool', name), name).toEqual(HIDDEN);
    }
    expect(mayCall(some, NOBODY, 'tool', 'deleted')).toEqual(ALLOWED);
  });

  test('is not what is denied, with any blanks in it, and in any case', () => {
    const some = rights({ tool: { deny: ['delete_user'] } });
    const blank = fc.constantFrom(
      ' ',
      '\t',
      '\u00a0',
      '\u200b',
      '\u2060',
      '\ufeff',
      '\u3000',
      '\0',
    );
    const spelled = fc
      .tuple(
        ...[...'delete_user'].map((letter) =>
          fc.tuple(fc.constantFrom(letter, letter.toUpperCase()), fc.array(blank)),
        ),
      )
      .map((parts) => parts.map(([letter, blanks]) => letter + blanks.join('')).join(''));
    fc.assert(
      fc.property(spelled, (name) => {
        expect(mayCall(some, NOBODY, 'tool', name)).toEqual(HIDDEN);
      }),
    );
  });

  test('is what one rule allows, whose scopes and claims all hold', () => {
    const some = rights({
      tool: {
        rules: [
          { names: ['pay*'], scopes: ['pay', 'sign'], claims: {} },
          { names: ['pay_small'], scopes: [], claims: { tier: ['gold', 'silver'], on: [true] } },
        ],
      },
    });
    expect(mayCall(some, caller(['pay', 'sign']), 'tool', 'pay_all')).toEqual(ALLOWED);
    const silver = caller([], { tier: ['bronze', 'silver'], on: [true] });
    expect(mayCall(some, silver, 'tool', 'pay_small')).toEqual(ALLOWED);
    const lacking = { type: 'lacks-scopes', scopes: ['pay', 'sign'] };
    expect(mayCall(some, caller(['pay']), 'tool', 'pay_all')).toEqual(lacking);
    expect(mayCall(some, NOBODY, 'tool', 'pay_all')).toEqual(lacking);
    // A claim of another type, or no such claim.
    for (const claims of [{ tier: ['gold'], on: ['true'] }, { tier: ['gold'] }, {}] as const) {
      expect(mayCall(some, caller([], claims), 'tool', 'pay_small')).toEqual(lacking);
    }
    expect(mayCall(some, caller(['pay', 'sign']), 'tool', 'other')).toEqual(HIDDEN);
  });

  test('lacks the scopes of the rule of which it lacks fewest, and none for which a claim is missing', () => {
    const some = rights({
      tool: {
        rules: [
          { names: ['t'], scopes: ['a', 'b', 'c'], claims: {} },
          { names: ['t'], scopes: ['a', 'd'], claims: {} },
          { names: ['t'], scopes: ['a'], claims: { admin: [true] } },
        ],
      },
    });
    expect(mayCall(some, caller(['a']), 'tool', 't')).toEqual({
      type: 'lacks-scopes',
      scopes: ['a', 'd'],
    });
  });
});

describe('resources', () => {
  const some = rights({ resource: { allow: ['file:///docs/*', 'git://x/a'] } });

  test.each(['file:///docs/a', 'file:///docs/a%20b', 'git://x/a', 'file:///docs/{name}'])(
    'that begin as allowed can be read: %s',
    (uri) => expect(mayCall(some, NOBODY, 'resource', uri)).toEqual(ALLOWED),
  );

  test.each([
    'file:///docs/../etc/passwd',
    'file:///docs/%2e%2e/etc/passwd',
    'file:///docs/%252e%252e%252fetc',
    'file:///docs/..%2fetc',
    'file:///docs/..\\etc',
    'file:///docs/..;/etc',
    'file:///docs/．．/etc',
    'file:///docs/%c0%ae%c0%ae/etc',
    'file:///docs/..',
    'file:///docs/a\nb',
    'file:///docs/%25252525252e',
    'FILE:///docs/a',
    'file://docs/a',
    'git://x/a?b',
  ])('that a server could take for others cannot: %s', (uri) => {
    expect(mayCall(some, NOBODY, 'resource', uri)).toEqual(HIDDEN);
  });

  test.each([
    'file:///secret/key',
    'file:/secret/key',
    'file:////secret//key',
    'file://localhost/secret/key',
    'FILE:///SECRET/key',
    'file:///%73ecret/key',
    'file:///a/../secret/key',
    'file:///secret/%6Bey?x',
  ])('that are denied cannot be read in another spelling: %s', (uri) => {
    const denied = rights({ resource: { deny: ['file:///secret/*'] } });
    expect(mayCall(denied, NOBODY, 'resource', uri)).toEqual(HIDDEN);
    const exactly = rights({ resource: { deny: ['file:///secret/key'] } });
    expect(mayCall(exactly, NOBODY, 'resource', uri)).toEqual(HIDDEN);
    expect(mayCall(exactly, NOBODY, 'resource', 'file:///secret/keys')).toEqual(ALLOWED);
  });
});

test('a list shows what its caller may use, and else stays the same object', () => {
  const some = rights({ tool: { deny: ['b'] }, resource: { allow: ['x://1*'] } });
  const result = {
    tools: [{ name: 'a' }, { name: 'b' }],
    resources: [{ uri: 'x://1' }, { uri: 'x://2' }],
    resourceTemplates: [{ uriTemplate: 'x://1{a}' }, { uriTemplate: 'y://{a}' }],
    prompts: [{ name: 'b' }],
  };
  expect(withoutHidden(some, NOBODY, result)).toEqual({
    tools: [{ name: 'a' }],
    resources: [{ uri: 'x://1' }],
    resourceTemplates: [{ uriTemplate: 'x://1{a}' }],
    prompts: [{ name: 'b' }],
  });
  const free = { tools: [{ name: 'a' }] };
  expect(withoutHidden(some, NOBODY, free)).toBe(free);
});

describe('a message', () => {
  const some = rights({
    tool: { allow: ['ok'] },
    prompt: { allow: ['ok'] },
    resource: { allow: ['ok:*'] },
  });
  const denial = (method: string, params: JsonObject) =>
    denialOf(some, NOBODY, { jsonrpc: '2.0', id: 1, method, params });

  test.each<[string, JsonObject]>([
    ['tools/call', { name: 'ok' }],
    ['prompts/get', { name: 'ok', arguments: { Name: 'no' } }],
    ['resources/read', { uri: 'ok:1' }],
    ['resources/subscribe', { uri: 'ok:1' }],
    ['completion/complete', { ref: { type: 'ref/prompt', name: 'ok' } }],
    ['completion/complete', { ref: { type: 'ref/resource', uri: 'ok:{x}' } }],
    ['subscriptions/listen', { notifications: { resourceSubscriptions: ['ok:1'] } }],
    ['subscriptions/listen', { notifications: { toolsListChanged: true } }],
    ['tools/list', {}],
    ['tasks/get', { taskId: 'no' }],
    ['notifications/cancelled', { requestId: 1 }],
  ])('%s is let through for what is allowed: %j', (method, params) => {
    expect(denial(method, params)).toBeNull();
  });

  test('that is a response is let through', () => {
    expect(denialOf(some, NOBODY, { jsonrpc: '2.0', id: 1, result: { name: 'no' } })).toBeNull();
  });

  test.each<[string, JsonObject]>([
    ['tools/call', { name: 'no' }],
    ['prompts/get', { name: 'no' }],
    ['resources/read', { uri: 'no:1' }],
    ['resources/subscribe', { uri: 'no:1' }],
    ['resources/unsubscribe', { uri: 'no:1' }],
    ['completion/complete', { ref: { type: 'ref/prompt', name: 'no' } }],
    ['completion/complete', { ref: { type: 'ref/resource', uri: 'no:{x}' } }],
    ['completion/complete', { ref: { type: 'ref/prompt', name: 'ok', uri: 'no:1' } }],
    ['subscriptions/listen', { notifications: { resourceSubscriptions: ['ok:1', 'no:1'] } }],
  ])('%s is refused for what is not: %j', (method, params) => {
    expect(denial(method, params)).toMatchObject({ type: 'hidden' });
  });

  test.each<[string, JsonObject]>([
    ['tools/call', { name: 'ok', Name: 'no' }],
    ['tools/call', { Name: 'no' }],
    ['tools/call', { name: ['no'] }],
    ['tools/call', {}],
    ['resources/read', { uri: 'ok:1', URI: 'no:1' }],
    ['completion/complete', { ref: { type: 'ref/prompt', name: 'ok', Name: 'no' } }],
    ['completion/complete', { ref: { type: 'ref/tool', name: 'no' } }],
    ['completion/complete', { ref: { type: 'ref/prompt' } }],
    ['completion/complete', { ref: { type: 'ref/prompt', name: 'ok' }, Ref: {} }],
    ['subscriptions/listen', { notifications: { ResourceSubscriptions: ['no:1'] } }],
    ['subscriptions/listen', { notifications: { resourceSubscriptions: 'no:1' } }],
    [
      'subscriptions/listen',
      { notifications: { resourceSubscriptions: Array(1_001).fill('ok:') } },
    ],
    ['subscriptions/listen', { Notifications: { resourceSubscriptions: ['no:1'] } }],
  ])('%s is refused if a server could read it otherwise: %j', (method, params) => {
    expect(denial(method, params)).toMatchObject({ type: 'unclear' });
  });

  test.each<JsonObject>([
    { method: 'tools/list', Method: 'tools/call' },
    { Method: 'tools/call', params: { name: 'no' } },
    { method: 'tools/call', params: { name: 'ok' }, 'param\u017f': { name: 'no' } },
    { method: 'tools/call', params: ['no'] },
  ])('is refused for a member that a lax decoder takes for another one: %j', (message) => {
    expect(denialOf(some, NOBODY, { jsonrpc: '2.0', id: 1, ...message })).toMatchObject({
      type: 'unclear',
    });
  });

  test.each(['Tools/Call', 'tools/call ', 'tools/callSaga', 'toString', '__proto__', 'x/y'])(
    'is refused if no revision has its method: %j',
    (method) => expect(denial(method, { name: 'ok' })).toEqual({ type: 'unknown-method' }),
  );
});
