import { describe, expect, test } from 'vitest';
import { FleetClock } from '../../../../src/fleet/store/fleet-clock.ts';
import { ManualClock } from '../../../fixtures/manual-clock.ts';

function fleetClock() {
  const machine = new ManualClock();
  const clock = new FleetClock(machine);
  const skews: number[] = [];
  clock.onSkew((aheadMs) => skews.push(aheadMs));
  /** The store's clock is so far behind ours; asking it takes so long. */
  const look = (aheadMs: number, roundTripMs = 0) => {
    const storeMs = machine.now() - aheadMs;
    const sentAtMs = clock.now() - roundTripMs / 2;
    clock.sample({ storeMs, sentAtMs, receivedAtMs: sentAtMs + roundTripMs });
  };
  return { machine, clock, skews, look };
}

describe('the time of the fleet', () => {
  test('is that of the machine until the store was asked', () => {
    const { machine, clock } = fleetClock();
    expect([clock.now(), clock.aheadMs]).toEqual([machine.now(), null]);
  });

  test.each([120_000, -120_000])("is the store's when the machine is %d ms ahead", (aheadMs) => {
    const { machine, clock, skews, look } = fleetClock();
    look(aheadMs);
    expect(clock.now()).toBe(machine.now() - aheadMs);
    look(aheadMs);
    expect([clock.aheadMs, skews]).toEqual([aheadMs, [aheadMs]]);
  });

  test('is not corrected for less than a second, and what is measured is known', () => {
    const { machine, clock, skews, look } = fleetClock();
    look(1_000);
    expect([clock.now(), clock.aheadMs, skews]).toEqual([machine.now(), 1_000, []]);
  });

  test('is not corrected for what may be the way to the store', () => {
    const { machine, clock, skews, look } = fleetClock();
    look(1_400, 1_000);
    expect([clock.now(), skews]).toEqual([machine.now(), []]);
  });

  // Rule store-6.
  test('is that of the machine again when its clock was set right', () => {
    const { machine, clock, skews, look } = fleetClock();
    look(120_000);
    look(5);
    expect([clock.now(), skews]).toEqual([machine.now(), [120_000, 5]]);
  });

  test('does not follow a store that tells no time', () => {
    const { machine, clock, look } = fleetClock();
    look(Number.NaN);
    expect([clock.now(), clock.aheadMs]).toEqual([machine.now(), null]);
  });

  test('does not change how long a timer waits', () => {
    const { machine, clock, look } = fleetClock();
    look(120_000);
    let fired = false;
    clock.setTimer(100, () => (fired = true));
    machine.advance(99);
    expect(fired).toBe(false);
    machine.advance(1);
    expect(fired).toBe(true);
  });
});
