/** Opens a tracer. The OpenTelemetry SDK is loaded only if the environment names an endpoint to export to. */
import type { Environment } from '../lib/program.ts';
import type { Log } from './log.ts';
import type { Tracer } from './tracing.ts';

/** Opens a tracer if the environment asks for traces (the `OTEL_*` names). @returns `null` if it does not */
export async function openTracer(env: Environment, log: Log): Promise<Tracer | null> {
  const endpoint = env['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'] || env['OTEL_EXPORTER_OTLP_ENDPOINT'];
  const isOff =
    env['OTEL_SDK_DISABLED']?.toLowerCase() === 'true' || env['OTEL_TRACES_EXPORTER'] === 'none';
  if (!endpoint || isOff) return null;
  const protocol =
    env['OTEL_EXPORTER_OTLP_TRACES_PROTOCOL'] || env['OTEL_EXPORTER_OTLP_PROTOCOL'] || PROTOCOL;
  if (protocol !== PROTOCOL) {
    log.event('traces.off', { problem: `the OTLP protocol is ${protocol}: expected ${PROTOCOL}` });
    return null;
  }
  const { OtlpTracer } = await import('./otlp.ts');
  return new OtlpTracer(env, log);
}

const PROTOCOL = 'http/protobuf';
