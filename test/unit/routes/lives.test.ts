import { expect, test } from 'vitest';
import { longestLife } from '../../../src/routes/settings.ts';
import { configOf, withRoute } from '../config/problems-of.ts';

test('what lives for a month is not forgotten before, also if a later configuration is shorter', () => {
  const days = 86_400_000;
  const month = configOf(withRoute('', '    tasks: { ttl: 30d }\n'));
  const hour = configOf(withRoute('', '    tasks: { ttl: 1h }\n'));
  expect(longestLife(hour, month)).toBeGreaterThan(30 * days);
  expect(longestLife(hour)).toBeLessThan(days);
});
