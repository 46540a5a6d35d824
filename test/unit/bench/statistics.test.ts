/** What the numbers of the benchmark mean. */
import { describe, expect, test } from 'vitest';
import { median, percentile, ratio, spreadOf } from '../../../bench/report/statistics.ts';

describe('the median', () => {
  test('is the value in the middle, in whatever order they come', () => {
    expect(median([9, 1, 10, 2, 3])).toBe(3);
  });

  test('is the mean of the two in the middle when there is no one middle', () => {
    expect(median([10, 2, 1, 4])).toBe(3);
  });

  test('of nothing is an error, not a number', () => {
    expect(() => median([])).toThrow(RangeError);
  });
});

describe('a percentile', () => {
  const hundred = Array.from({ length: 100 }, (_, index) => 100 - index);

  test('is the sample at the nearest rank, never a value that was not measured', () => {
    expect(percentile(hundred, 0.99)).toBe(99);
    expect(percentile([5, 1], 0.99)).toBe(5);
  });

  test('reaches from the least to the most', () => {
    expect([percentile(hundred, 0), percentile(hundred, 1)]).toEqual([1, 100]);
  });

  test('leaves the samples in their order', () => {
    const samples = [3, 1, 2];
    percentile(samples, 0.5);
    expect(samples).toEqual([3, 1, 2]);
  });
});

test('a spread tells the median, the middle half and how many rounds there were', () => {
  expect(spreadOf([8, 1, 2, 3, 4, 5, 6, 7])).toEqual({
    median: 4.5,
    lower: 2,
    upper: 6,
    rounds: 8,
  });
});

describe('a ratio', () => {
  test('tells how many times the other value a value is', () => {
    expect(ratio(3, 2)).toBe(1.5);
  });

  test.each([0, -0.01, NaN, null])('to %s is not told', (to) => {
    expect(ratio(1, to)).toBeNull();
  });
});
