/** The request of a client on its way to another replica. */
import { expect, test } from 'vitest';
import { asLocalUser } from '../../../../src/front/callers.ts';
import { callerOf } from '../../../../src/identity/identity.ts';
import type { Caller } from '../../../../src/model/request.ts';
import { readRequest, writeRequest } from '../../../../src/fleet/relay/messages.ts';
import { RETRY } from '../../../fixtures/clients/edge-request.ts';

const OPTIONS = {
  credentialHeaders: ['x-api-key'],
  authorization: 'forward',
  forwardHeaders: ['x-api-key'],
  conversationHeader: 'x-chat',
} as const;

function caller(headers: Record<string, string>, named: string | null = null): Caller {
  return callerOf(headers, { principal: named }, OPTIONS);
}

// Rule relay-5.
test.each([
  ['anonymous', caller({})],
  ['the local user', asLocalUser(caller({}))],
  ['known by credentials', caller({ authorization: 'Bearer a' })],
  ['named by a proxy', caller({ authorization: 'Bearer a' }, 'header:bearer:a')],
  ['known by an API key', caller({ 'x-api-key': 'a' })],
  ['named by a proxy, with an API key', caller({ 'x-api-key': 'a' }, 'header:ada')],
  ['in a conversation', caller({ 'x-chat': '1' })],
])('a relayed request of a caller that is %s arrives as it was', (_title, from) => {
  const sent = { route: 'mcp', request: { ...RETRY, caller: from } };
  expect(readRequest(writeRequest(sent))).toEqual(sent);
});

// Rule relay-5.
test('a relayed request keeps its trace and the address of its client', () => {
  const trace = '0af7651916cd43dd8448eb211c80319c';
  const request = { ...RETRY, trace, caller: { ...RETRY.caller, address: '192.0.2.1' } };
  expect(readRequest(writeRequest({ route: 'mcp', request }))?.request).toEqual(request);
});
