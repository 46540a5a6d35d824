import { describe, expect, test } from 'vitest';
import { leftOut } from '../../run/left-out.ts';
import type { Need } from '../../run/needs.ts';

const need = (tag: string, isThere: boolean): Need => ({
  tag,
  what: `a ${tag}`,
  howToGet: `install ${tag}`,
  isThere,
});
const tagged = (...tags: string[]) => ({ tags });

describe('the end of a run says', () => {
  test('what was skipped because something is missing, and how to get it', () => {
    const skipped = [tagged('redis'), tagged('redis', 'nginx'), tagged('nginx')];
    expect(leftOut(skipped, [need('redis', false), need('nginx', true)])).toEqual([
      '2 tests need a redis: install redis',
    ]);
  });

  test('what was left to another script', () => {
    expect(leftOut([tagged('long'), tagged('minutes'), tagged('long')], [])).toEqual([
      '2 tests left to npm run test:faults: fault tests that take long or much memory',
      '1 test left to npm run test:faults:long: fault tests that wait for minutes',
    ]);
  });

  test('nothing if nothing was skipped', () => {
    expect(leftOut([], [need('redis', false)])).toEqual([]);
  });
});
