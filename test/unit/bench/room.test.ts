/** How many parked calls the benchmark tries on a machine. */
import { describe, expect, test } from 'vitest';
import { describeRoom, filesFor, fit, type Room } from '../../../bench/machine/room.ts';

const WIDE: Room = {
  openFiles: { limit: 1_000_000, needed: 20_000, problem: null },
  ports: { first: 10_000, last: 60_000 },
  availableBytes: 64 * 2 ** 30,
  tcpBytes: 2 ** 30,
};
const PLAN = { calls: 9_000, gateways: 1, upstreams: 3, isReleased: false };

describe('the number of calls', () => {
  test('is what was wanted where there is room', () => {
    expect(fit(PLAN, WIDE)).toEqual({ calls: 9_000, why: [] });
  });

  test('is lower where a gateway can open few files, which is said', () => {
    const openFiles = { limit: 11_000, needed: 19_000, problem: 'not permitted' };
    const room = { ...WIDE, openFiles };
    expect(fit(PLAN, room)).toEqual({ calls: 5_000, why: ['open files: 11000'] });
    expect(fit({ ...PLAN, calls: 20_000, gateways: 3 }, room).calls).toBe(15_000);
    expect(describeRoom(room)[0]).toMatch(/11000, 19000 were asked for: not permitted/);
  });

  test('is lower where the upstreams have few ports', () => {
    const room = { ...WIDE, ports: { first: 50_001, last: 55_000 } };
    expect(fit(PLAN, room)).toEqual({ calls: 6_000, why: ['local ports: 50001 to 55000'] });
  });

  test('is lower where memory is short', () => {
    const { calls, why } = fit(PLAN, { ...WIDE, availableBytes: 2 ** 29 });
    expect(calls).toBeLessThan(9_000);
    expect(why).toEqual(['available memory: 512 MiB']);
  });

  test('of released calls depends on memory only', () => {
    const openFiles = { limit: 1_100, needed: 1_100, problem: null };
    const plan = { ...PLAN, calls: 100_000, isReleased: true };
    expect(fit(plan, { ...WIDE, openFiles }).calls).toBe(100_000);
  });

  test('is higher where it is known that each takes less memory', () => {
    const room = { ...WIDE, availableBytes: 2 ** 30 };
    const plan = { ...PLAN, calls: 100_000, isReleased: true };
    expect(fit(plan, room).calls).toBeLessThan(100_000);
    expect(fit({ ...plan, bytesEach: 8 * 1_024 }, room).calls).toBe(100_000);
  });

  test('is what was wanted where nothing is known of the machine', () => {
    const unknown: Room = {
      openFiles: { limit: null, needed: 1, problem: 'the limit cannot be read' },
      ports: null,
      availableBytes: null,
      tcpBytes: null,
    };
    expect(fit(PLAN, unknown).calls).toBe(9_000);
  });
});

test('the files that are asked for suffice', () => {
  const limit = filesFor(9_000);
  const openFiles = { limit, needed: limit, problem: null };
  expect(fit(PLAN, { ...WIDE, openFiles })).toEqual({ calls: 9_000, why: [] });
});
