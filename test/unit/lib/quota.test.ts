/** Places for listeners and tasks. */
import { expect, test } from 'vitest';
import { LocalCounts, Quota } from '../../../src/lib/counts.ts';

// Rule subscriptions-4.
test('one principal takes no more than its share, and all together no more than there are', () => {
  const quota = new Quota('listeners', () => ({ max: 3, maxPerPrincipal: 2 }), new LocalCounts());
  expect(quota.take('ada')).not.toBeNull();
  expect(quota.take('ada')).not.toBeNull();
  expect(quota.take('ada')).toBeNull();
  expect(quota.take('bob')).not.toBeNull();
  expect(quota.take('eve')).toBeNull();
});

test('a place that is given back is there again, once', () => {
  const quota = new Quota('listeners', () => ({ max: 2, maxPerPrincipal: 1 }), new LocalCounts());
  const giveBack = quota.take('ada');
  quota.take('bob');
  giveBack?.();
  giveBack?.();
  expect(quota.take('ada')).not.toBeNull();
  expect(quota.take('eve')).toBeNull();
});
