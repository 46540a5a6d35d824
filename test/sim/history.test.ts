/** Histories, which are data. */
import { expect, test } from 'vitest';
import { PLAIN_HABITS } from './fleet/clients/habits.ts';
import { isEnd } from './fleet/faults.ts';
import { type History, historyOf, shorten } from './fleet/history.ts';
import { PLAIN_SERVER } from './fleet/servers/traits.ts';
import { USUAL_SETTINGS } from './fleet/settings.ts';

const seeds = Array.from({ length: 20 }, (_, at) => at + 1);

test('one seed gives one history, another seed another', () => {
  expect(historyOf(1)).toEqual(historyOf(1));
  expect(historyOf(1)).not.toEqual(historyOf(2));
});

test('a failing history is made as short as what makes it fail', () => {
  const needs = ({ calls, faults }: History) =>
    faults.some(({ id }) => id === 1) && [3, 5].every((id) => calls.some((call) => call.id === id));
  const failing = seeds.map((seed) => historyOf(seed)).filter(needs);
  expect(failing.length).toBeGreaterThan(5);
  for (const history of failing) {
    const shortest = shorten(history, needs);
    const { calls, faults, replicas, workers, isCalm, server, gateway, legacy } = shortest;
    expect(legacy).toEqual([]);
    expect(calls.map(({ id }) => id).toSorted()).toEqual([3, 5]);
    expect(calls.map(({ thinkMs }) => thinkMs)).toEqual([0, 0]);
    expect(calls.map(({ habits }) => habits)).toEqual([PLAIN_HABITS, PLAIN_HABITS]);
    expect({ faults: faults.length, replicas, workers, isCalm, server, gateway }).toEqual({
      faults: 1,
      // A gateway with workers can be alone.
      replicas: Math.min(2, history.replicas),
      workers: 1,
      isCalm: true,
      server: PLAIN_SERVER,
      gateway: USUAL_SETTINGS,
    });
  }
});

test('a history that fails only as it is stays as it is', () => {
  for (const seed of seeds) expect(shorten(historyOf(seed), () => false)).toEqual(historyOf(seed));
});

test('a fleet of one replica is not killed', () => {
  const ends = seeds.flatMap((seed) =>
    historyOf(seed, { replicas: 1 }).faults.filter(({ kind }) => isEnd(kind)),
  );
  expect(ends).toEqual([]);
});

test('a long history has more calls of more callers, and at least five processes that end', () => {
  for (const seed of seeds) {
    const { calls, faults } = historyOf(seed, { size: 'long' });
    expect(calls).toHaveLength(200);
    expect(new Set(calls.map(({ caller }) => caller)).size).toBe(4);
    const ends = faults.filter(({ kind, restartMs }) => isEnd(kind) && restartMs !== null);
    expect(ends.length).toBeGreaterThanOrEqual(5);
  }
});
