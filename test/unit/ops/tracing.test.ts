import { afterEach, describe, expect, test, vi } from 'vitest';
import type { Log } from '../../../src/ops/log.ts';
import { openTracer } from '../../../src/ops/open-tracer.ts';
import { readTraceContext, withContext } from '../../../src/ops/tracing.ts';
import { TraceCollector } from '../../fixtures/servers/trace-collector.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const PARENT = { traceparent: `00-${'1'.repeat(32)}-${'a'.repeat(16)}-01` };
const UNSAMPLED = { traceparent: `00-${'1'.repeat(32)}-${'a'.repeat(16)}-00` };
const silent: Log = { event: () => {}, takes: () => true };

afterEach(() => void vi.unstubAllEnvs());

describe('a tracer', () => {
  test.each([
    ['no endpoint is set', {}],
    ['the endpoint is empty', { OTEL_EXPORTER_OTLP_ENDPOINT: '' }],
    ['the SDK is disabled', { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://x', OTEL_SDK_DISABLED: 'TRUE' }],
    ['it is turned off', { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://x', OTEL_TRACES_EXPORTER: 'none' }],
  ])('is not opened if %s', async (_why, env) => {
    expect(await openTracer(env, silent)).toBeNull();
  });

  test('is not opened for another protocol, and the log says why', async () => {
    const event = vi.fn();
    const env = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://x', OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' };
    expect(await openTracer(env, { event, takes: () => true })).toBeNull();
    const problem = 'the OTLP protocol is grpc: expected http/protobuf';
    expect(event).toHaveBeenCalledWith('traces.off', { problem });
  });

  test.each([
    ['parentbased_always_on', undefined, 1, 0],
    ['parentbased_always_off', undefined, 0, 0],
    ['always_on', undefined, 1, 1],
    ['always_off', undefined, 0, 0],
    ['traceidratio', '0', 0, 0],
    ['parentbased_traceidratio', '1', 1, 0],
  ])('samples as %s (%s) says', async (sampler, argument, roots, unsampled) => {
    const collector = await TraceCollector.start();
    stopAfterTest(() => collector.stop());
    // The exporter reads the environment of the process.
    vi.stubEnv('OTEL_EXPORTER_OTLP_ENDPOINT', collector.url);
    vi.stubEnv('OTEL_TRACES_SAMPLER', sampler);
    vi.stubEnv('OTEL_TRACES_SAMPLER_ARG', argument);
    const tracer = await openTracer(process.env, silent);
    const operation = { kind: 'server', attributes: {} } as const;
    tracer?.start({ ...operation, name: 'root', parent: null }).end(null);
    tracer?.start({ ...operation, name: 'of unsampled', parent: UNSAMPLED }).end(null);
    await tracer?.close();
    const named = (name: string) => collector.spans.filter((span) => span.name === name).length;
    expect([named('root'), named('of unsampled')]).toEqual([roots, unsampled]);
  });
});

describe('a trace context', () => {
  test.each([
    ['is read', PARENT, PARENT],
    ['has a state', { ...PARENT, tracestate: 'a=b' }, { ...PARENT, tracestate: 'a=b' }],
    ['has a state that is not a string', { ...PARENT, tracestate: 1 }, PARENT],
    ['is not there', {}, null],
    ['is not a string', { traceparent: 1 }, null],
    ['is malformed', { traceparent: '00-1-2-01' }, null],
  ])('%s', (_what, from, read) => expect(readTraceContext(from)).toEqual(read));

  test("takes the place of the client's, state and all", () => {
    const span = { context: PARENT, child: () => span, set() {}, link() {}, end() {} };
    const given = { traceparent: 'x', tracestate: 'y', other: 'z' };
    expect(withContext(given, span)).toEqual({ ...PARENT, other: 'z' });
    expect(withContext(given, null)).toBe(given);
  });
});
