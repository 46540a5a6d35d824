import { describe, expect, test } from 'vitest';
import { CircuitBreaker } from '../../../src/limits/admission.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';

function breaker(more: { consecutiveFailures?: number | null; random?: () => number } = {}) {
  const clock = new ManualClock();
  const changes: unknown[] = [];
  const noResponse = new Error('no response');
  const circuit = new CircuitBreaker(
    {
      consecutiveFailures: 3,
      onOpened: (failure) => changes.push(failure),
      onClosed: () => changes.push('closed'),
      random: () => 0.5,
      ...more,
    },
    clock,
  );
  const fail = (times: number) => {
    for (let index = 0; index < times; index += 1) circuit.ended(noResponse);
  };
  return { clock, circuit, changes, fail, noResponse };
}

describe('a circuit', () => {
  test('opens after failures in a row, and tells it once', () => {
    const { circuit, changes, fail, noResponse } = breaker();
    fail(2);
    circuit.ended(200);
    fail(2);
    expect([circuit.isOpen, circuit.admit()]).toEqual([false, 0]);
    fail(1);
    expect([circuit.isOpen, circuit.admit()]).toEqual([true, 1_000]);
    fail(5);
    expect([circuit.admit(), changes]).toEqual([1_000, [noResponse]]);
  });

  test('counts 502, 503 and 504, and any other status as a response', () => {
    const { circuit } = breaker();
    for (const status of [503, 502, 500, 504, 503]) circuit.ended(status);
    expect(circuit.isOpen).toBe(false);
    circuit.ended(503);
    expect(circuit.isOpen).toBe(true);
  });

  test('lets one request through in each interval, which doubles up to its maximum', async () => {
    const { clock, circuit, fail } = breaker();
    fail(3);
    for (const openForMs of [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]) {
      clock.advance(openForMs - 1);
      expect(circuit.admit()).toBe(1);
      clock.advance(1);
      expect(circuit.admit()).toBe(0);
      expect(circuit.admit()).toBeGreaterThan(0);
      fail(1);
    }
  });

  test('lets another request through if nothing is heard of the one before', async () => {
    const { clock, circuit, fail } = breaker();
    fail(3);
    clock.advance(1_000);
    expect(circuit.admit()).toBe(0);
    clock.advance(999);
    expect(circuit.admit()).toBe(1);
    clock.advance(1);
    expect(circuit.admit()).toBe(0);
  });

  test('closes with any response, and begins to count again', () => {
    const { circuit, changes, fail } = breaker();
    fail(2);
    circuit.ended(503);
    circuit.ended(404);
    expect([circuit.isOpen, circuit.admit(), changes]).toEqual([false, 0, [503, 'closed']]);
    fail(2);
    expect(circuit.isOpen).toBe(false);
  });

  test.each([
    [0, 750],
    [0.999, 1_250],
  ])('has jitter: %d is %d ms', (random, ms) => {
    const { circuit, fail } = breaker({ random: () => random });
    fail(3);
    expect(circuit.admit()).toBe(ms);
  });

  test('that is off never opens', () => {
    const { circuit, fail } = breaker({ consecutiveFailures: null });
    fail(100);
    expect(circuit.isOpen).toBe(false);
  });
});
