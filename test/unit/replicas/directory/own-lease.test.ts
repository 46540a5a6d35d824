/** The lease of a replica: when it was gone. */
import { expect, test } from 'vitest';
import { OwnLease } from '../../../../src/replicas/directory/own-lease.ts';
import type { RedisClient } from '../../../../src/replicas/redis/client.ts';
import { ManualClock } from '../../../fixtures/manual-clock.ts';

const LEASE_MS = 5_000;

/** A lease in a Redis that can lose its data. */
function testbed() {
  const clock = new ManualClock();
  let expiresAtMs: number | null = null;
  const redis = {
    pttl: async () => (expiresAtMs === null ? -2 : expiresAtMs - clock.elapsed()),
    set: async () => {
      expiresAtMs = clock.elapsed() + LEASE_MS;
      return 'OK';
    },
  } as unknown as RedisClient;
  const lease = new OwnLease({ key: 'lease', text: 'owner', leaseMs: LEASE_MS, clock });
  let told = 0;
  lease.onRestored(() => (told += 1));
  return {
    clock,
    lease,
    renew: async () => (await lease.renew(redis))(),
    loseData: () => (expiresAtMs = null),
    told: () => told,
  };
}

test('nobody is told of the first lease, nor of those that are renewed in time', async () => {
  const { clock, renew, lease, told } = testbed();
  await renew();
  clock.advance(1_000);
  await renew();
  expect([told(), lease.wasJustRestored]).toEqual([0, false]);
});

// Rule shared-12.
test('a lease that is gone is noticed when it is renewed', async () => {
  const { clock, renew, loseData, lease, told } = testbed();
  await renew();
  loseData();
  await renew();
  expect([told(), lease.wasJustRestored]).toEqual([1, true]);
  clock.advance(LEASE_MS);
  expect(lease.wasJustRestored).toBe(false);
});
