/** The groups of connections to one server. */
import { expect, test } from 'vitest';
import { Connections } from '../../../../src/upstream/http/client.ts';
import { stopAfterTest } from '../../../fixtures/stop-after-test.ts';

test('groups that a burst of requests has filled are closed when it is over, but for one to spare', async () => {
  const connections = new Connections({});
  stopAfterTest(() => connections.close());
  const taken = Array.from({ length: 300 }, () => connections.take());
  const groups = new Set(taken);
  expect(groups.size).toBe(5);
  for (const group of taken.splice(1)) group.release();
  const closed = [...groups].filter(
    ({ dispatcher }) => 'closed' in dispatcher && dispatcher.closed,
  );
  expect(closed).toHaveLength(3);
  // The next burst has the two that are left, and new ones.
  const again = Array.from({ length: 300 }, () => connections.take());
  expect([...groups].filter((group) => [...taken, ...again].includes(group))).toHaveLength(2);
  expect(again.every(({ dispatcher }) => !('closed' in dispatcher && dispatcher.closed))).toBe(
    true,
  );
});
