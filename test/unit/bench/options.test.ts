/** The flags of the benchmark. */
import { expect, test } from 'vitest';
import { readOptions, usage } from '../../../bench/options.ts';
import { PARTS } from '../../../bench/parts.ts';

const NAMES = PARTS.map(({ name }) => name);
const read = (...args: string[]) => readOptions(args, NAMES);

test('without flags it measures calls at 1 and at 32 connections, and prints tables', () => {
  const options = read();
  expect(options?.calls.loads.map(({ connections }) => connections)).toEqual([1, 32]);
  expect(options?.print).toBe('text');
});

test('without flags it runs every part but those that take half an hour and more', () => {
  const long = ['many', 'rolling'];
  expect(read()?.parts).toEqual(NAMES.filter((name) => !long.includes(name)));
  expect(read('--many')?.parts).toEqual(NAMES);
});

test('--only runs some parts, in their order', () => {
  expect(read('--only', 'parked,calls')?.parts).toEqual(['calls', 'parked']);
  expect(read('--only', 'many')?.parts).toEqual(['many']);
  expect(read('--only', 'calls', '--many')?.parts).toEqual(['calls', 'many', 'rolling']);
});

test('--only with a part that is not there names those that are', () => {
  expect(() => read('--only', 'calls,speed')).toThrow(/calls, questions.*"speed"/);
});

test('the help names every part', () => {
  const text = usage(NAMES);
  expect(NAMES.filter((name) => !text.includes(name))).toEqual([]);
});

test('a run with the long part may take longer before it is given up', () => {
  expect(read('--many')?.giveUpMs).toBeGreaterThan(read()?.giveUpMs ?? Infinity);
});

test('--quick measures the same things with fewer samples', () => {
  const [full, quick] = [read(), read('--quick')];
  expect(quick?.calls.loads.map(({ connections }) => connections)).toEqual([1, 32]);
  expect(quick?.relay.samples).toBeLessThan(full?.relay.samples ?? 0);
  expect(quick?.parked.count).toBeLessThan(full?.parked.count ?? 0);
  expect(quick?.many.released).toBeLessThan(full?.many.released ?? 0);
});

test('--parked and --released say how many calls are parked', () => {
  expect(read('--parked', '20', '--released', '30')?.parked).toMatchObject({
    count: 20,
    releasedCount: 30,
  });
});

test('--over-replicas says how many calls are released over replicas, and the run may take as long as that', () => {
  const [few, many] = [read('--only', 'rolling', '--over-replicas', '2000'), read('--many')];
  expect(few?.rolling.count).toBe(2_000);
  expect(many?.rolling.count).toBe(1_000_000);
  expect(many?.giveUpMs).toBeGreaterThan((few?.giveUpMs ?? Infinity) + 3_600_000);
});

test.each([
  ['--parked', '0'],
  ['--parked', '1.5'],
  ['--released', 'many'],
  ['--over-replicas', '2000000'],
  ['--fast'],
])('refuses %s %s', (...args) => {
  expect(() => read(...args)).toThrow(TypeError);
});

test('--help measures nothing', () => {
  expect(read('--help')).toBeNull();
});

test('--earlier names the folder of another version', () => {
  expect(read('--earlier', '/srv/earlier')?.earlier?.href).toBe('file:///srv/earlier/');
  expect(read()?.earlier).toBeNull();
});

test('--noisy takes more and shorter turns, and does not go with --quick', () => {
  const [full, noisy] = [read(), read('--noisy')];
  expect(noisy?.calls.loads[1]?.rounds).toBeGreaterThan(full?.calls.loads[1]?.rounds ?? 0);
  expect(noisy?.calls.loads[1]?.runMs).toBeLessThan(full?.calls.loads[1]?.runMs ?? 0);
  expect(() => read('--noisy', '--quick')).toThrow(TypeError);
});

test('--json and --markdown are two forms, of which one is printed', () => {
  expect(read('--json')?.print).toBe('json');
  expect(read('--markdown')?.print).toBe('markdown');
  expect(() => read('--json', '--markdown')).toThrow(TypeError);
});
