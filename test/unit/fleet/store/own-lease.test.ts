/** The lease of a replica: when it was gone. */
import { expect, test } from 'vitest';
import { OwnLease } from '../../../../src/fleet/store/own-lease.ts';
import type { RedisClient } from '../../../../src/fleet/redis/client.ts';
import { ManualClock } from '../../../fixtures/manual-clock.ts';

const LEASE_MS = 5_000;

/** A lease in a Redis that can lose its data, and whose replies can be lost. */
function testbed() {
  const clock = new ManualClock();
  let expiresAtMs: number | null = null;
  /** Of the commands that are sent next, the one whose reply is lost, counted from one. */
  let losesReplyOf = 0;
  const carryOut = (command: () => unknown) => {
    const reply = command();
    losesReplyOf -= 1;
    return losesReplyOf === 0 ? Promise.reject(new Error('timed out')) : Promise.resolve(reply);
  };
  const redis = {
    pttl: () => carryOut(() => (expiresAtMs === null ? -2 : expiresAtMs - clock.elapsed())),
    set: (_key: string, _write: () => string, _px: string, leaseMs: number, onlyIf?: 'XX') =>
      carryOut(() => {
        if (onlyIf === 'XX' && (expiresAtMs ?? 0) <= clock.elapsed()) return null;
        expiresAtMs = clock.elapsed() + leaseMs;
        return 'OK';
      }),
  } as unknown as RedisClient;
  const lease = new OwnLease({ key: 'lease', write: () => 'owner', leaseMs: LEASE_MS, clock });
  let told = 0;
  return {
    clock,
    lease,
    renew: async () => {
      if (await lease.renew(redis)) told += 1;
    },
    loseData: () => (expiresAtMs = null),
    isNew: () => lease.isNew(redis),
    loseReplyOf: (command: number) => (losesReplyOf = command),
    told: () => told,
  };
}

test('nobody is told of the first lease, nor of those that are renewed in time', async () => {
  const { clock, renew, lease, told } = testbed();
  await renew();
  clock.advance(1_000);
  await renew();
  expect([told(), lease.isKnownNew]).toEqual([0, false]);
});

// Rule shared-8.
test('a lease that is gone is noticed when it is renewed', async () => {
  const { clock, renew, loseData, lease, told } = testbed();
  await renew();
  loseData();
  await renew();
  expect([told(), lease.isKnownNew]).toEqual([1, true]);
  clock.advance(LEASE_MS);
  expect(lease.isKnownNew).toBe(false);
});

// Rule shared-8.
test.each([
  ['the renewal that found it gone', 1],
  ['what made it again', 2],
])('a lease that is gone is noticed if the reply to %s is lost', async (_what, command) => {
  const { clock, renew, loseData, loseReplyOf, isNew, told } = testbed();
  await renew();
  loseData();
  loseReplyOf(command);
  await expect(renew()).rejects.toThrow('timed out');
  expect([told(), await isNew()]).toEqual([0, true]);
  clock.advance(1_500);
  await renew();
  expect([told(), await isNew()]).toEqual([1, true]);
  clock.advance(1_500);
  await renew();
  expect(told()).toBe(1);
});

// Rule shared-8.
test('nobody is told of a lease that was there, although the reply to a renewal is lost', async () => {
  const { clock, renew, loseReplyOf, isNew, told } = testbed();
  await renew();
  for (let lost = 0; lost < 2; lost += 1) {
    loseReplyOf(1);
    clock.advance(1_500);
    await expect(renew()).rejects.toThrow('timed out');
  }
  clock.advance(1_500);
  await renew();
  expect([told(), await isNew()]).toEqual([0, false]);
});

// Rule shared-13.
test('a lease that could not be renewed for its time counts as gone, whatever arrives late', async () => {
  const { clock, renew, loseReplyOf, told } = testbed();
  await renew();
  loseReplyOf(1);
  clock.advance(4_000);
  await expect(renew()).rejects.toThrow('timed out');
  clock.advance(1_000);
  await renew();
  expect(told()).toBe(1);
});

// Rule shared-8.
test('two renewals at once that find the lease gone tell it once', async () => {
  const { renew, loseData, told } = testbed();
  await renew();
  loseData();
  await Promise.all([renew(), renew()]);
  expect(told()).toBe(1);
});

// Rule questions-10.
test('a lease counts from when it was sent until its end, and one that is taken again is another one', async () => {
  const { clock, renew, lease } = testbed();
  expect(lease.term).toBeNull();
  await renew();
  const { term } = lease;
  clock.advance(LEASE_MS - 1);
  expect(lease.term).toBe(term);
  await renew();
  clock.advance(LEASE_MS - 1);
  expect(lease.term).toBe(term);
  clock.advance(1);
  expect(lease.term).toBeNull();
  await renew();
  expect(lease.term).toBe(Number(term) + 1);
});
