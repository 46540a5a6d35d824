/** Traces with the OpenTelemetry SDK, exported over OTLP/HTTP. Only `openTracer` loads this. */
import {
  createTraceState,
  isSpanContextValid,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  TraceFlags,
  type Context,
  type Span as SdkSpan,
  type SpanContext,
  type Tracer as SdkTracer,
} from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import {
  defaultResource,
  detectResources,
  resourceAttributesEnvDetector,
  resourceFromAttributes,
  serviceInstanceIdDetector,
  serviceNameEnvDetector,
} from '@opentelemetry/resources';
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
  type Sampler,
  type SpanExporter,
} from '@opentelemetry/sdk-trace';
import { systemClock } from '../lib/clock.ts';
import { VERSION, type Environment } from '../lib/program.ts';
import type { Log, LogEvents } from './log.ts';
import { throttledLog } from './throttled-log.ts';
import type {
  EntrySpanOptions,
  Attributes,
  SpanOptions,
  Span,
  TraceContext,
  Tracer,
} from './tracing.ts';

/** How long the end of the process waits for the last export, in ms. */
const FLUSH_MS = 2_000;
/** A name that a client chose can be of any length. */
const MAX_ATTRIBUTE_CHARACTERS = 1_024;
const KINDS = { server: SpanKind.SERVER, client: SpanKind.CLIENT };

/** The later of them win. */
const DETECTORS = [
  serviceInstanceIdDetector,
  resourceAttributesEnvDetector,
  serviceNameEnvDetector,
];

export class OtlpTracer implements Tracer {
  readonly #provider: TracerProvider;
  readonly #tracer: SdkTracer;

  constructor(env: Environment, log: Log) {
    const exporter = reporting(new OTLPTraceExporter(), log);
    this.#provider = new TracerProvider({
      resource: defaultResource()
        .merge(resourceFromAttributes({ 'service.name': NAME, 'service.version': VERSION }))
        .merge(detectResources({ detectors: DETECTORS })),
      sampler: samplerOf(env),
      spanLimits: { attributeValueLengthLimit: MAX_ATTRIBUTE_CHARACTERS },
      spanProcessors: [new BatchSpanProcessor({ exporter, ...batchesOf(env) })],
    });
    this.#tracer = this.#provider.getTracer(NAME, VERSION);
  }

  start({ parent, link, ...options }: EntrySpanOptions): Span {
    const from = parent === null ? null : spanContextOf(parent);
    const context = from === null ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, from);
    const span = new OtlpSpan(this.#tracer, context, options);
    if (link) span.link(link);
    return span;
  }

  async close(): Promise<void> {
    const { promise: expiry, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, FLUSH_MS);
    // A failure was reported by the exporter.
    await Promise.race([this.#provider.shutdown().catch(() => {}), expiry]);
    clearTimeout(timer);
  }
}

const NAME = 'mrtr-gateway';

class OtlpSpan implements Span {
  readonly context: TraceContext;
  readonly #tracer: SdkTracer;
  readonly #span: SdkSpan;

  constructor(tracer: SdkTracer, parent: Context, { kind, name, attributes }: SpanOptions) {
    this.#tracer = tracer;
    this.#span = tracer.startSpan(name, { kind: KINDS[kind], attributes }, parent);
    this.context = contextOf(this.#span.spanContext());
  }

  child(options: SpanOptions): Span {
    return new OtlpSpan(this.#tracer, trace.setSpan(ROOT_CONTEXT, this.#span), options);
  }

  set(attributes: Attributes): void {
    this.#span.setAttributes(attributes);
  }

  link(to: TraceContext): void {
    const context = spanContextOf(to);
    if (context !== null) this.#span.addLink({ context });
  }

  end(errorType: string | null): void {
    if (!this.#span.isRecording()) return;
    if (errorType !== null) {
      this.#span.setAttribute('error.type', errorType);
      this.#span.setStatus({ code: SpanStatusCode.ERROR });
    }
    this.#span.end();
  }
}

function contextOf({ traceId, spanId, traceFlags, traceState }: SpanContext): TraceContext {
  const flags = (traceFlags & TraceFlags.SAMPLED).toString(16).padStart(2, '0');
  const traceparent = `00-${traceId}-${spanId}-${flags}`;
  const tracestate = traceState?.serialize() ?? '';
  return tracestate === '' ? { traceparent } : { traceparent, tracestate };
}

function spanContextOf({ traceparent, tracestate }: TraceContext): SpanContext | null {
  const [, traceId = '', spanId = '', flags = ''] = traceparent.split('-');
  const context: SpanContext = {
    traceId,
    spanId,
    traceFlags: Number.parseInt(flags, 16),
    isRemote: true,
    // Its successor is in a package that this one thing would be needed from.
    // eslint-disable-next-line @typescript-eslint/no-deprecated
    ...(tracestate === undefined ? {} : { traceState: createTraceState(tracestate) }),
  };
  return isSpanContextValid(context) ? context : null;
}

/** Reports exports that fail, at most once a minute. Spans are dropped then: nothing waits for the collector. */
function reporting(exporter: OTLPTraceExporter, log: Log): SpanExporter {
  const report = throttledLog<LogEvents['traces.not_exported']>(systemClock, (failure) =>
    log.event('traces.not_exported', failure),
  );
  return {
    export: (spans, done) =>
      exporter.export(spans, (result) => {
        const { error } = result;
        if (error !== undefined) report({ spans: spans.length, problem: error.message });
        done(result);
      }),
    forceFlush: () => exporter.forceFlush(),
    shutdown: () => exporter.shutdown(),
  };
}

function samplerOf(env: Environment): Sampler {
  const ratio = Number(env['OTEL_TRACES_SAMPLER_ARG'] ?? 1);
  const root = (name: string): Sampler => {
    if (name === 'always_off') return new AlwaysOffSampler();
    if (name === 'traceidratio' && ratio >= 0 && ratio <= 1) {
      return new TraceIdRatioBasedSampler(ratio);
    }
    return new AlwaysOnSampler();
  };
  const name = env['OTEL_TRACES_SAMPLER'] || 'parentbased_always_on';
  const [, parentBased] = /^parentbased_(.*)$/.exec(name) ?? [];
  return parentBased === undefined
    ? root(name)
    : new ParentBasedSampler({ root: root(parentBased) });
}

/** Reads the limits of batches (`OTEL_BSP_*`). The SDK has defaults for what is not set. */
function batchesOf(env: Environment) {
  const read = (name: string, member: string) => {
    const value = Number(env[`OTEL_BSP_${name}`] || Number.NaN);
    return Number.isSafeInteger(value) && value > 0 ? { [member]: value } : {};
  };
  return {
    ...read('SCHEDULE_DELAY', 'scheduledDelayMillis'),
    ...read('EXPORT_TIMEOUT', 'exportTimeoutMillis'),
    ...read('MAX_QUEUE_SIZE', 'maxQueueSize'),
    ...read('MAX_EXPORT_BATCH_SIZE', 'maxExportBatchSize'),
  };
}
