/** The request of a client on its way to another replica. */
import { expect, test } from 'vitest';
import { asLocalUser, callerOf } from '../../../../src/identity/identity.ts';
import type { Caller } from '../../../../src/model/request.ts';
import { readRequest, writeRequest } from '../../../../src/replicas/relay/messages.ts';
import { RETRY } from '../../../fixtures/clients/edge-request.ts';

const KEYS = { credentialHeaders: ['x-api-key'] } as const;
const OPEN = {
  identity: { source: 'none', ...KEYS },
  authorization: 'forward',
  forwardHeaders: ['x-api-key'],
} as const;
const NAMED = { ...OPEN, identity: { source: 'header', header: 'x-user', ...KEYS } } as const;

function caller(headers: Record<string, string>, options: Parameters<typeof callerOf>[1]): Caller {
  const found = callerOf(headers, options);
  if (found === null) throw new Error('no caller');
  return found;
}

// Rule relay-15.
test.each([
  ['anonymous', caller({}, OPEN)],
  ['the local user', asLocalUser(caller({}, OPEN))],
  ['known by credentials', caller({ authorization: 'Bearer a' }, OPEN)],
  ['named by a proxy', caller({ 'x-user': 'bearer:a', authorization: 'Bearer a' }, NAMED)],
  ['known by an API key', caller({ 'x-api-key': 'a' }, OPEN)],
  ['named by a proxy, with an API key', caller({ 'x-user': 'ada', 'x-api-key': 'a' }, NAMED)],
  ['in a conversation', caller({ 'x-chat': '1' }, { ...OPEN, conversationHeader: 'x-chat' })],
])('of a caller that is %s arrives as it was', (_title, from) => {
  const sent = { route: 'mcp', request: { ...RETRY, caller: from } };
  expect(readRequest(writeRequest(sent))).toEqual(sent);
});

// Rule relay-15.
test('has the members that replicas of earlier builds know, unless a header names its conversation', () => {
  const written = JSON.parse(writeRequest({ route: 'mcp', request: RETRY })) as {
    request: { caller: object };
  };
  expect(Object.keys(written.request.caller).sort()).toEqual([
    'credentialsKey',
    'headers',
    'principal',
    'principalKey',
  ]);
});
