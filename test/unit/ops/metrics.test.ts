import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { DurationHistogram } from '../../../src/ops/request-metrics.ts';
import { SummedMetrics } from '../../../src/ops/summed-metrics.ts';

function histogram() {
  const registry = new Registry();
  const durations = new DurationHistogram({
    ...{ name: 'took_seconds', help: 'How long it took', labels: ['a', 'b'], buckets: [0.1, 1] },
    registry,
  });
  return { registry, durations };
}

test('a histogram counts each value in its bucket and in those above', async () => {
  const { registry, durations } = histogram();
  durations.observe(100, 'x', '');
  durations.observe(101, 'x', '');
  durations.observe(2_000, 'x', '');
  durations.observe(1, 'y', 'z"');
  expect(await registry.metrics()).toBe(
    [
      '# HELP took_seconds How long it took',
      '# TYPE took_seconds histogram',
      'took_seconds_bucket{a="x",b="",le="0.1"} 1',
      'took_seconds_bucket{a="x",b="",le="1"} 2',
      'took_seconds_bucket{a="x",b="",le="+Inf"} 3',
      'took_seconds_sum{a="x",b=""} 2.201',
      'took_seconds_count{a="x",b=""} 3',
      'took_seconds_bucket{a="y",b="z\\"",le="0.1"} 1',
      'took_seconds_bucket{a="y",b="z\\"",le="1"} 1',
      'took_seconds_bucket{a="y",b="z\\"",le="+Inf"} 1',
      'took_seconds_sum{a="y",b="z\\""} 0.001',
      'took_seconds_count{a="y",b="z\\""} 1',
      '',
    ].join('\n'),
  );
});

test('histograms of several processes are summed', async () => {
  const { registry, durations } = histogram();
  durations.observe(100, 'x', '');
  const snapshot = await registry.getMetricsAsJSON();
  const text = await new SummedMetrics(
    () => 2,
    () => ({ isSuccessful: true, succeededAtMs: 0 }),
  ).text(
    new Map([
      [1, snapshot],
      [2, snapshot],
    ]),
  );
  expect(text).toContain('took_seconds_bucket{a="x",b="",le="0.1"} 2');
  expect(text).toContain('took_seconds_count{a="x",b=""} 2');
});
