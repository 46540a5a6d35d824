/** Histories, which are data. */
import { expect, test } from 'vitest';
import { type History, historyOf, shorten } from './fleet/history.ts';

const seeds = Array.from({ length: 20 }, (_, at) => at + 1);

test('one seed gives one history, another seed another', () => {
  expect(historyOf(1)).toEqual(historyOf(1));
  expect(historyOf(1)).not.toEqual(historyOf(2));
});

test('a failing history is made as short as what makes it fail', () => {
  const needs = ({ calls, kills }: History) =>
    kills.length > 0 && [3, 5].every((id) => calls.some((call) => call.id === id));
  for (const seed of seeds) {
    const { calls, kills, replicas, isCalm } = shorten(historyOf(seed), needs);
    expect(calls.map(({ id }) => id).toSorted()).toEqual([3, 5]);
    expect(calls.map(({ thinkMs }) => thinkMs)).toEqual([0, 0]);
    expect({ kills: kills.length, replicas, isCalm }).toEqual({
      kills: 1,
      replicas: 2,
      isCalm: true,
    });
  }
});

test('a history that fails only as it is stays as it is', () => {
  for (const seed of seeds) expect(shorten(historyOf(seed), () => false)).toEqual(historyOf(seed));
});

test('a fleet of one replica is not killed', () => {
  for (const seed of seeds) expect(historyOf(seed, 1).kills).toEqual([]);
});
