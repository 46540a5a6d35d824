import type { IncomingMessage } from 'node:http';
import { describe, expect, test } from 'vitest';
import { callerOf, Identity } from '../../../src/identity/identity.ts';
import { RecordedLog } from '../../fixtures/gateways/gateway.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';

const CREDENTIALS = ['x-api-key', 'x-tenant'];
const NAMED = 'header:ada';

function caller(
  headers: Record<string, string>,
  named: string | null = null,
  credentialHeaders: readonly string[] = CREDENTIALS,
) {
  return callerOf(
    headers,
    { principal: named },
    {
      credentialHeaders,
      authorization: 'forward',
      forwardHeaders: [],
    },
  );
}

// Rule callers-8.
describe('credential headers', () => {
  test('make a caller of one who has no other credentials', () => {
    expect(caller({}).kind).toBe('anonymous');
    expect(caller({ 'x-api-key': 'a' }).kind).toBe('credentials');
  });

  test.each([
    [{ 'x-api-key': 'a' }, { 'x-api-key': 'b' }],
    [{ 'x-api-key': 'a' }, { 'x-tenant': 'a' }],
    [{ 'x-api-key': 'a' }, { authorization: 'a' }],
    [{ 'x-api-key': 'a' }, { 'x-api-key': 'a', authorization: 'Bearer t' }],
    [{ 'x-api-key': 'a' }, { 'x-api-key': 'a', 'x-tenant': '' }],
  ])('tell the caller with %j from that with %j', (one, other) => {
    for (const named of [null, NAMED]) {
      const callers = [one, other].map((headers) => caller(headers, named));
      const [principals, credentials] = [
        callers.map(({ principal }) => principal),
        callers.map(({ credentialsKey }) => credentialsKey),
      ];
      expect(new Set(credentials).size).toBe(2);
      // A name outlives a refreshed token, and no change of another credential.
      const isToken = named === NAMED && JSON.stringify([one, other]).includes('Bearer t');
      expect(new Set(principals).size).toBe(isToken ? 1 : 2);
    }
  });

  test('are no part of another name', () => {
    const { principal } = caller({ 'x-api-key': 'a' }, NAMED);
    const [, rest = ''] = /^header(.*)$/.exec(principal ?? '') ?? [];
    expect(caller({}, `header:${rest}`).principal).not.toBe(principal);
  });

  test('change nothing for who sends none of them', () => {
    const headers = { authorization: 'Bearer t' };
    expect(caller(headers)).toEqual(caller(headers, null, []));
  });
});

test('refused callers are one line a minute for each reason, with their number', async () => {
  const log = new RecordedLog();
  const clock = new ManualClock();
  const identity = new Identity({
    ...{ identity: { source: 'header', header: 'x-user' }, trustedProxies: ['10.0.0.1'] },
    ...{ log, clock },
  });
  const refuse = () => identity.identify(requestFrom({ remoteAddress: '127.0.0.1' }));
  for (let count = 0; count < 400; count += 1) await refuse();
  expect(log.named('identity.refused')).toMatchObject([{ requests: 1 }]);
  clock.advance(60_000);
  await refuse();
  expect(log.named('identity.refused')).toMatchObject([{ requests: 1 }, { requests: 400 }]);
});

/** A request as far as its caller is looked for. */
function requestFrom(peer: { remoteAddress?: string }): IncomingMessage {
  return { headers: { 'x-user': 'ada' }, socket: peer } as unknown as IncomingMessage;
}

// Rule callers-9.
test('a caller that a proxy named has that name until the end, also when its connection is gone', async () => {
  const log = new RecordedLog();
  const identity = new Identity({
    ...{ identity: { source: 'header', header: 'x-user' }, trustedProxies: ['127.0.0.1'] },
    ...{ log, clock: new ManualClock() },
  });
  const peer: { remoteAddress?: string } = { remoteAddress: '127.0.0.1' };
  const request = requestFrom(peer);
  expect(await identity.identify(request)).toEqual({ kind: 'known', principal: 'header:ada' });
  delete peer.remoteAddress;
  expect(identity.knownOf(request)).toMatchObject({ principal: 'header:ada' });
  expect(log.named('identity.refused')).toEqual([]);
});
