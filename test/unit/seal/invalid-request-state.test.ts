import { inspect } from 'node:util';
import { describe, expect, test } from 'vitest';
import { callId } from '../../../src/protocol/ids.ts';
import {
  INVALID_REQUEST_STATE,
  INVALID_REQUEST_STATE_REASONS,
  InvalidRequestState,
} from '../../../src/seal/invalid-request-state.ts';
import { forge, HEADER } from './tokens/forge.ts';
import { NEW_KEY, NOW_MS, pointer, refusal, request, sealer } from './sealing-fixture.ts';

// Rule pointer-6.
test('the error for the client is the one that the official SDKs send, and nobody can change it', () => {
  expect(JSON.stringify(INVALID_REQUEST_STATE)).toBe(
    '{"code":-32602,"message":"Invalid or expired requestState","data":{"reason":"invalid_request_state"}}',
  );
  expect(Object.isFrozen(INVALID_REQUEST_STATE)).toBe(true);
  expect(Object.isFrozen(INVALID_REQUEST_STATE.data)).toBe(true);
});

test.each(INVALID_REQUEST_STATE_REASONS)(
  'the message does not give away the reason %s',
  (reason) => {
    const error = new InvalidRequestState(reason, callId('some-call'));
    expect(error).toMatchObject({ code: 'invalid_request_state', reason, callId: 'some-call' });
    expect(error.message).toBe(INVALID_REQUEST_STATE.message);
  },
);

describe('whatever the cause', () => {
  const { seal, open } = sealer();
  const late = sealer({ clock: { now: () => NOW_MS + 601_000 } });
  const early = sealer({ clock: { now: () => NOW_MS - 601_000 } });
  const timeless = sealer({ clock: { now: () => Number.NaN } });
  const otherFleet = sealer({ audience: 'fleet-b' });
  const otherKeys = sealer({ keys: [NEW_KEY] });
  const token = seal(pointer);
  const half = Math.floor(token.length / 2);

  const causes: [string, () => unknown][] = [
    ['a number', () => open(123, request)],
    ['null', () => open(null, request)],
    ['an empty text', () => open('', request)],
    ['prose', () => open('awaiting-confirmation', request)],
    ['five megabytes', () => open('A'.repeat(5_000_000), request)],
    ['a newline behind the token', () => open(`${token}\n`, request)],
    ['a token cut in half', () => open(token.slice(0, half), request)],
    [
      'a changed character',
      () => open(`${token.slice(0, -1)}${token.endsWith('A') ? 'Q' : 'A'}`, request),
    ],
    ['an unknown key', () => otherKeys.open(token, request)],
    [
      'another header',
      () => open(forge({ header: { ...HEADER, typ: 'JWT' }, claims: {} }), request),
    ],
    ['a key of another purpose', () => open(forge({ claims: {}, purpose: 'relay' }), request)],
    ['a content that is no pointer', () => open(forge({ claims: {} }), request)],
    ['a pointer of a later version', () => open(forge({ claims: { v: 4 } }), request)],
    ['an expired pointer', () => late.open(token, request)],
    ['a pointer from the future', () => early.open(token, request)],
    ['a clock without a time', () => timeless.open(token, request)],
    ['another fleet', () => otherFleet.open(token, request)],
    ['another route', () => open(token, { ...request, route: 'billing' })],
    ['another method', () => open(token, { ...request, method: 'prompts/get' })],
    ['another target', () => open(token, { ...request, target: 'destroy' })],
    ['another digest', () => open(token, { ...request, digest: 'A'.repeat(43) })],
    ['another principal', () => open(token, { ...request, principal: 'A'.repeat(43) })],
    ['no principal', () => open(token, { ...request, principal: null })],
  ];

  // Rule pointer-6.
  test.each(causes)('%s: the refusal says the same', (_title, opening) => {
    const error = refusal(opening);
    expect([error.name, error.code, error.message]).toEqual([
      'InvalidRequestState',
      'invalid_request_state',
      'Invalid or expired requestState',
    ]);
    expect(error.cause).toBeUndefined();
  });

  test.each(causes)('%s: the refusal holds nothing that a log must not have', (_title, opening) => {
    const shown = inspect(refusal(opening), { depth: 9, showHidden: true });
    for (const secret of [token, token.slice(-40), request.principal ?? '', request.digest]) {
      expect(shown).not.toContain(secret);
    }
  });
});
