/** What is left of a call whose client leaves before it begins. */
import { expect, test } from 'vitest';
import { callsTestbed, waitingClient } from '../../fixtures/calls-testbed.ts';

test('a client that leaves while its tool is looked up leaves no call behind', async () => {
  const client = waitingClient();
  const { call, capacity, server, clock } = callsTestbed({
    mayReplay: async () => {
      client.leave();
      return true;
    },
  });
  const reply = await call(client.leg).reply;
  expect(reply).toMatchObject({ failure: { error: { data: { reason: 'cancelled' } } } });
  expect(capacity.running).toBe(0);
  expect(clock.pending).toBe(0);
  expect(server.did).toEqual([]);
});
