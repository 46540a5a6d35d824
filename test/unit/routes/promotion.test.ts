/** Which calls become tasks, and when: by route and tool, for clients that know tasks. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { EdgeRequest } from '../../../src/model/request.ts';
import {
  onlyServerTasks,
  promotionOf,
  type PromotionSettings,
} from '../../../src/routes/route-calls.ts';
import { promotesAny } from '../../../src/routes/settings.ts';
import { RETRY } from '../../fixtures/clients/edge-request.ts';

const SETTINGS: PromotionSettings = { promote: 'slow', tools: {}, afterMs: 30_000, ttlMs: 60_000 };
const KNOWS_TASKS: EdgeRequest = { ...RETRY, profile: { ...RETRY.profile, tasks: true } };

describe('a call of a client that knows tasks', () => {
  // Rule promoted-9.
  test.each([
    ['never', null],
    ['slow', { afterMs: 30_000, onQuestion: false, ttlMs: 60_000 }],
    ['interactive', { afterMs: 30_000, onQuestion: true, ttlMs: 60_000 }],
    ['always', { afterMs: 0, onQuestion: true, ttlMs: 60_000 }],
  ] as const)('%s', (promote, expected) => {
    expect(promotionOf(KNOWS_TASKS, { ...SETTINGS, promote })).toEqual(expected);
    // The policy of a tool counts before that of its route.
    const tools = { greet: promote };
    expect(promotionOf(KNOWS_TASKS, { ...SETTINGS, promote: 'slow', tools })).toEqual(expected);
  });

  test('no name of a tool is mistaken for a policy that is not there', () => {
    for (const name of ['constructor', '__proto__', 'toString']) {
      const request = { ...KNOWS_TASKS, params: { name } };
      expect(promotionOf(request, SETTINGS)).toMatchObject({ onQuestion: false });
    }
  });

  // Rule owned-1.
  test('is left to what its server runs as a task, where tasks have no store', () => {
    for (const promote of ['slow', 'interactive', 'always'] as const) {
      const decided = promotionOf(KNOWS_TASKS, { ...SETTINGS, promote });
      expect(onlyServerTasks(decided)).toEqual({ afterMs: null, onQuestion: false, ttlMs: 60_000 });
    }
    expect(onlyServerTasks(null)).toBeNull();
  });
});

// Rule promoted-10.
test('no other call becomes a task', () => {
  const always: PromotionSettings = { ...SETTINGS, promote: 'always' };
  expect(promotionOf(RETRY, always)).toBeNull();
  expect(promotionOf({ ...KNOWS_TASKS, method: 'prompts/get' }, always)).toBeNull();
  expect(promotionOf({ ...RETRY, wantsTask: { ttlMs: null } }, always)).toBeNull();
});

// Rule dialects-13.
test('a client that asks for a task gets one at once, for no longer than the operator allows', () => {
  fc.assert(
    fc.property(fc.option(fc.nat()), (ttlMs) => {
      const promotion = promotionOf({ ...KNOWS_TASKS, wantsTask: { ttlMs } }, SETTINGS);
      expect(promotion).toMatchObject({ afterMs: 0, onQuestion: true });
      const expectedMs = Math.min(Math.max(1_000, ttlMs ?? SETTINGS.ttlMs), SETTINGS.ttlMs);
      expect(promotion?.ttlMs).toBe(expectedMs);
    }),
  );
});

test('the extension is offered if any tool can have tasks', () => {
  expect(promotesAny({ ...SETTINGS, promote: 'never' })).toBe(false);
  expect(promotesAny({ ...SETTINGS, promote: 'never', tools: { greet: 'slow' } })).toBe(true);
  expect(promotesAny(SETTINGS)).toBe(true);
});
