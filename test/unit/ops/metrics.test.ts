import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import type { Gauges } from '../../../src/ops/gauges.ts';
import { Metrics } from '../../../src/ops/metrics.ts';
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

/** Metrics of a gateway that is forgotten at once, and what they read. */
async function metricsOfAGateway() {
  const none = () => new Map<string, number>();
  const zero = () => 0;
  const gauges: Gauges = {
    ...{ parked: none, released: none, sessions: none, upstreamsUp: none, circuitsOpen: none },
    ...{ limits: none, tasks: () => new Map(), running: zero, connections: zero },
    ...{ redisUp: () => null, clockAheadMs: () => null },
  };
  const metrics = new Metrics(Date, gauges);
  const text = await metrics.text();
  const names = (await metrics.snapshot()).map(({ name }) => name);
  return { gauges: new WeakRef(gauges), text, names };
}

test('a gateway that has ended leaves nothing of itself in the metrics of its process', async () => {
  setFlagsFromString('--expose-gc');
  const collectGarbage = runInNewContext('gc') as () => void;
  const gateways = [await metricsOfAGateway(), await metricsOfAGateway()];
  await new Promise(setImmediate);
  collectGarbage();
  expect(gateways.map(({ gauges }) => gauges.deref())).toEqual([undefined, undefined]);
  for (const { text, names } of gateways) {
    for (const name of ['nodejs_gc_duration_seconds', 'process_cpu_seconds_total']) {
      expect(text.match(new RegExp(`^# TYPE ${name} `, 'gm'))).toHaveLength(1);
      expect(names).toContain(name);
    }
  }
});
