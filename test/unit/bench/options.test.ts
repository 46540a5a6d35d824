/** The flags of the benchmark. */
import { expect, test } from 'vitest';
import { readOptions } from '../../../bench/options.ts';

test('without flags it measures calls at 1 and at 32 connections, and prints tables', () => {
  const options = readOptions([]);
  expect(options?.calls.loads.map(({ connections }) => connections)).toEqual([1, 32]);
  expect(options?.json).toBe(false);
});

test('--quick measures the same things with fewer samples', () => {
  const [full, quick] = [readOptions([]), readOptions(['--quick'])];
  expect(quick?.calls.loads.map(({ connections }) => connections)).toEqual([1, 32]);
  expect(quick?.relay.samples).toBeLessThan(full?.relay.samples ?? 0);
  expect(quick?.parked.count).toBeLessThan(full?.parked.count ?? 0);
});

test('--parked and --released say how many calls are parked', () => {
  expect(readOptions(['--parked', '20', '--released', '30'])?.parked).toMatchObject({
    count: 20,
    releasedCount: 30,
  });
});

test.each([['--parked', '0'], ['--parked', '1.5'], ['--released', 'many'], ['--fast']])(
  'refuses %s %s',
  (...args) => {
    expect(() => readOptions(args)).toThrow(TypeError);
  },
);

test('--help measures nothing', () => {
  expect(readOptions(['--help'])).toBeNull();
});

test('--earlier names the folder of another version', () => {
  expect(readOptions(['--earlier', '/srv/earlier'])?.earlier?.href).toBe('file:///srv/earlier/');
  expect(readOptions([])?.earlier).toBeNull();
});

test('--noisy takes more and shorter turns, and does not go with --quick', () => {
  const [full, noisy] = [readOptions([]), readOptions(['--noisy'])];
  expect(noisy?.calls.loads[1]?.rounds).toBeGreaterThan(full?.calls.loads[1]?.rounds ?? 0);
  expect(noisy?.calls.loads[1]?.runMs).toBeLessThan(full?.calls.loads[1]?.runMs ?? 0);
  expect(() => readOptions(['--noisy', '--quick'])).toThrow(TypeError);
});
