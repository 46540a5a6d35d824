import { describe, expect, test } from 'vitest';
import { principalTag, requestDigest } from '../../../src/seal/digests.ts';
import { UnsealablePointer } from '../../../src/seal/seal.ts';
import {
  expectRefused,
  LIFETIME_SECONDS,
  NEW_KEY,
  NOW_MS,
  NOW_SECONDS,
  pointer,
  refusal,
  request,
  sealer,
} from './sealing-fixture.ts';

describe('an unchanged requestState', () => {
  test('restores the pointer, with what the sealer added', () => {
    const { seal, open } = sealer();
    expect(open(seal(pointer), request)).toEqual({
      ...pointer,
      audience: 'fleet-a',
      issuedAtSeconds: NOW_SECONDS,
    });
  });

  test('works for an owner without an address and for a caller without identity', () => {
    const { seal, open } = sealer();
    const owner = { id: 'replica-2', instance: '1' };
    const opened = open(seal({ ...pointer, owner, principal: null }), {
      ...request,
      principal: null,
    });
    expect(opened.owner).toEqual(owner);
    expect(opened.principal).toBeNull();
  });

  test.each(['ünïcødé – 状態', 'file:///tmp/a b', 'unpaired \ud800 surrogate', ''])(
    'works for the target %j',
    (target) => {
      const { seal, open } = sealer();
      const opened = open(seal({ ...pointer, target }), { ...request, target });
      expect(opened.target).toBe(target);
    },
  );

  test('opens more than once: single use is the business of the owner of the call', () => {
    const { seal, open } = sealer();
    const requestState = seal(pointer);
    expect(open(requestState, request)).toEqual(open(requestState, request));
  });
});

describe('what a client can see', () => {
  test('is text of the base64url alphabet and dots', () => {
    const { seal } = sealer();
    expect(seal(pointer)).toMatch(/^[A-Za-z0-9_.-]+$/);
  });

  // Rule pointer-1.
  test('is nothing of the pointer, neither as text nor as decoded bytes', () => {
    const { seal } = sealer();
    const requestState = seal(pointer);
    const decoded = requestState
      .split('.')
      .map((segment) => Buffer.from(segment, 'base64url').toString('latin1'))
      .join('\n');
    const claims = [pointer.callId, pointer.owner.id, pointer.digest, pointer.route, 'deploy'];
    for (const claim of claims) {
      expect(requestState).not.toContain(claim);
      expect(requestState).not.toContain(Buffer.from(claim).toString('base64url'));
      expect(decoded).not.toContain(claim);
    }
  });

  // Rule pointer-1 (MRTR, "Server Requirements" 3): A pointer is a compact JWE (`dir`, `A256GCM`). A client can read
  // its algorithm, key name and type only.
  test('is the algorithm, the name of the key and the type, nothing else', () => {
    const { seal } = sealer();
    const [header = ''] = seal(pointer).split('.');
    expect(JSON.parse(Buffer.from(header, 'base64url').toString())).toEqual({
      alg: 'dir',
      enc: 'A256GCM',
      kid: '2026-09',
      typ: 'mrtr+jwe',
    });
  });

  test('is small: an ordinary pointer stays below 1 KiB', () => {
    const { seal } = sealer();
    expect(seal(pointer).length).toBeLessThan(1024);
  });
});

test('ten thousand seals of one pointer use ten thousand nonces', () => {
  const { seal } = sealer();
  const nonces = new Set<string>();
  for (let batch = 0; batch < 100; batch += 1) {
    const tokens = Array.from({ length: 100 }, () => seal(pointer));
    for (const token of tokens) nonces.add(token.split('.')[2] ?? '');
  }
  expect(nonces.size).toBe(10_000);
});

// Rule pointer-3.
describe('a pointer expires', () => {
  function openAt(nowMs: number, expiresAtSeconds: number) {
    const { seal } = sealer();
    const { open } = sealer({ clock: { now: () => nowMs } });
    return open(seal({ ...pointer, expiresAtSeconds }), request);
  }

  test('at its expiry, not a millisecond earlier', () => {
    const expiry = NOW_SECONDS + LIFETIME_SECONDS;
    expect(openAt(expiry * 1000 - 1, expiry)).toMatchObject({ expiresAtSeconds: expiry });
    expectRefused(() => openAt(expiry * 1000, expiry), 'expired');
  });

  test('to the fraction of a second when its lifetime is a fraction', () => {
    expect(openAt(NOW_MS + 499, NOW_SECONDS + 0.5)).toMatchObject({ round: 1 });
    expectRefused(() => openAt(NOW_MS + 500, NOW_SECONDS + 0.5), 'expired');
  });

  // Rule pointer-8: A pointer from a clock up to 60 s ahead is valid. One that looks expired while its owner cannot
  // be asked gets `coordination_unavailable` and `data.retryable`.
  test('and does not count yet when it comes from more than 60 seconds in the future', () => {
    const expiry = NOW_SECONDS + LIFETIME_SECONDS;
    expect(openAt(NOW_MS - 60_000, expiry)).toMatchObject({ issuedAtSeconds: NOW_SECONDS });
    expectRefused(() => openAt(NOW_MS - 60_001, expiry), 'issued-in-future');
  });

  test('whenever the time is not a number', () => {
    expectRefused(() => openAt(Number.NaN, NOW_SECONDS + LIFETIME_SECONDS), 'expired');
  });

  test('later when a later round seals again', () => {
    let nowMs = NOW_MS;
    const { seal, open } = sealer({ clock: { now: () => nowMs } });
    const first = seal(pointer);
    nowMs += (LIFETIME_SECONDS + 1) * 1000;
    const second = seal({
      ...pointer,
      round: 2,
      expiresAtSeconds: nowMs / 1000 + LIFETIME_SECONDS,
    });
    expectRefused(() => open(first, request), 'expired');
    expect(open(second, request)).toMatchObject({
      round: 2,
      issuedAtSeconds: NOW_SECONDS + LIFETIME_SECONDS + 1,
    });
  });
});

// Rule pointer-3 (MRTR, "Server Requirements" 5): It holds for the same caller, route, method, name and arguments,
// until it expires.
describe('a genuine pointer is refused', () => {
  const other = {
    'on another route': [{ route: 'billing' }, 'route'],
    'for another method': [{ method: 'prompts/get' }, 'method'],
    'for another tool': [{ target: 'destroy' }, 'target'],
    'for other arguments': [
      {
        digest: requestDigest('tools/call', {
          name: 'deploy',
          arguments: { environment: 'staging' },
        }),
      },
      'digest',
    ],
    'from another principal': [
      { principal: principalTag('fleet-a', 'https://issuer.example bob') },
      'principal',
    ],
    'from nobody when it was sealed for somebody': [{ principal: null }, 'principal'],
  } as const;

  test.each(Object.entries(other))('%s', (_title, [change, reason]) => {
    const { seal, open } = sealer();
    const requestState = seal(pointer);
    expectRefused(() => open(requestState, { ...request, ...change }), reason);
    expect(open(requestState, request)).toMatchObject({ callId: pointer.callId });
  });

  // Rule pointer-3.
  test('from somebody when it was sealed for nobody', () => {
    const { seal, open } = sealer();
    const requestState = seal({ ...pointer, principal: null });
    expectRefused(() => open(requestState, request), 'principal');
  });

  // Rule pointer-7.
  test('by another fleet that has the same keys', () => {
    const [billing, payments] = [sealer({ audience: 'billing' }), sealer({ audience: 'payments' })];
    const requestState = billing.seal(pointer);
    expectRefused(() => payments.open(requestState, request), 'audience');
    expect(billing.open(requestState, request)).toMatchObject({ audience: 'billing' });
  });

  test('by a fleet with other keys', () => {
    const { seal } = sealer();
    const { open } = sealer({ keys: [NEW_KEY] });
    expectRefused(() => open(seal(pointer), request), 'unknown-key');
  });

  test.each([undefined, 12345, true, {}])(
    'when the identity source hands over %j, whatever the types say',
    (principal) => {
      const { seal, open } = sealer();
      const misled = { ...request, principal: principal as unknown as string };
      expectRefused(() => open(seal(pointer), misled), 'principal');
      const anonymous = seal({ ...pointer, principal: null });
      expectRefused(() => open(anonymous, misled), 'principal');
    },
  );

  test('and the refusal names the call for the log, once the seal has proven it', () => {
    const { seal, open } = sealer();
    const requestState = seal(pointer);
    const proven = refusal(() => open(requestState, { ...request, target: 'destroy' }));
    expect(proven.callId).toBe(pointer.callId);
    const unproven = refusal(() => open(`${requestState}A`, request));
    expect(unproven.callId).toBeNull();
  });
});

describe('sealing refuses', () => {
  test('what would be too long to open', () => {
    const { seal } = sealer({ maxTokenBytes: 1024 });
    const sealing = () => seal({ ...pointer, target: `file:///${'a'.repeat(1024)}` });
    expect(sealing).toThrow(UnsealablePointer);
    expect(sealing).toThrow(expect.objectContaining({ code: 'pointer_too_large' }));
  });

  test('nothing that is exactly as long as may be opened', () => {
    const { length } = sealer().seal(pointer);
    const { seal, open } = sealer({ maxTokenBytes: length });
    expect(open(seal(pointer), request)).toMatchObject({ round: 1 });
    const tighter = sealer({ maxTokenBytes: length - 1 });
    expect(() => tighter.seal(pointer)).toThrow(
      expect.objectContaining({ code: 'pointer_too_large' }),
    );
  });

  test.each([
    ['an expiry that is not a number', { expiresAtSeconds: Number.NaN }],
    ['an expiry that never comes', { expiresAtSeconds: Number.POSITIVE_INFINITY }],
    ['a round before the first', { round: 0 }],
    ['a round that is no whole number', { round: 1.5 }],
    ['an empty digest', { digest: '' }],
    ['a principal that is not a string', { principal: 12345 as unknown as string }],
  ])('%s', (_title, change) => {
    const { seal } = sealer();
    expect(() => seal({ ...pointer, ...change })).toThrow(
      expect.objectContaining({ code: 'pointer_malformed' }),
    );
  });

  test('to work for a fleet without a name', () => {
    const { seal } = sealer({ audience: '' });
    expect(() => seal(pointer)).toThrow(expect.objectContaining({ code: 'pointer_malformed' }));
  });

  test('to work while the clock has no time', () => {
    const { seal } = sealer({ clock: { now: () => Number.NaN } });
    expect(() => seal(pointer)).toThrow(expect.objectContaining({ code: 'pointer_malformed' }));
  });
});
