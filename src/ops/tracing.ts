/** Distributed tracing, as the rest of the gateway uses it. The OpenTelemetry SDK is behind it in `otlp.ts`. */
import type { JsonObject } from '../protocol/json.ts';
import { ErrorCode, isModernError } from '../protocol/json-rpc.ts';

/** A place in a trace, as W3C Trace Context writes it: in headers, and in `_meta` (SEP-414). */
export interface TraceContext {
  readonly traceparent: string;
  readonly tracestate?: string;
}

export type Attributes = Readonly<Record<string, string | number>>;

/** What a span is created with. */
export interface SpanOptions {
  readonly kind: 'server' | 'client';
  readonly name: string;
  readonly attributes: Attributes;
}

/** The same for the first span of this process: another one may have begun the trace. */
export interface EntrySpanOptions extends SpanOptions {
  readonly parent: TraceContext | null;
  /** Another context that came with it, which is linked. */
  readonly link?: TraceContext | null;
}

/** An operation under way. Nothing that it is told can fail. */
export interface Span {
  readonly context: TraceContext;
  /** Starts an operation that is a part of this one. It can end later. */
  child(options: SpanOptions): Span;
  set(attributes: Attributes): void;
  /** Links the span to another one. */
  link(to: TraceContext): void;
  /** Ends the span; a second end is ignored. @param errorType what failed, in one word; `null` if nothing did */
  end(errorType: string | null): void;
}

export interface Tracer {
  start(options: EntrySpanOptions): Span;
  /** Exports what has ended, for a few seconds at most. */
  close(): Promise<void>;
}

/**
 * Describes an MCP request by the semantic conventions of OpenTelemetry (gen-ai/mcp, status "Development").
 * @param target the tool, prompt or resource; see `loggedTarget`
 */
export function mcpOperation(
  kind: SpanOptions['kind'],
  method: string,
  target: string,
  attributes: Attributes,
): SpanOptions {
  const nameOfTarget = TARGETS[method];
  const isNamed = nameOfTarget !== undefined && target !== '';
  return {
    kind,
    // The URI of a resource would be a name of its own for each.
    name: isNamed && method !== 'resources/read' ? `${method} ${target}` : method,
    attributes: {
      'mcp.method.name': method,
      ...(method === 'tools/call' && { 'gen_ai.operation.name': 'execute_tool' }),
      ...(isNamed && { [nameOfTarget]: target }),
      ...attributes,
    },
  };
}

const TARGETS: Readonly<Record<string, string>> = {
  'tools/call': 'gen_ai.tool.name',
  'prompts/get': 'gen_ai.prompt.name',
  'resources/read': 'mcp.resource.uri',
};

/**
 * Returns the target as far as it may be logged.
 * @returns the name of the tool or prompt, or as much of the URI as says which resource it is: whoever reads
 *   the rest of a signed URL can get the resource
 */
export function loggedTarget(method: string, params: JsonObject): string {
  const target = method === 'resources/read' ? params['uri'] : params['name'];
  if (typeof target !== 'string') return '';
  return method === 'resources/read' ? withoutSecrets(target) : target;
}

/** Removes query, fragment and userinfo (RFC 3986, section 3). Any text is accepted: URIs are not checked here. */
export function withoutSecrets(uri: string): string {
  return uri.replace(/[?#].*$/s, '').replace(/^([^/\\]*[/\\]{2})[^/\\]*@/, '$1');
}

const TRACEPARENT = /^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}$/;

/** Reads a trace context from headers or `_meta`. @returns `null` if there is none, or none that is valid */
export function readTraceContext(from: Readonly<Record<string, unknown>>): TraceContext | null {
  const { traceparent, tracestate } = from;
  if (typeof traceparent !== 'string' || !TRACEPARENT.test(traceparent)) return null;
  return typeof tracestate === 'string' ? { traceparent, tracestate } : { traceparent };
}

/**
 * Finds where a request of a client stands in the client's trace.
 * @param meta its `_meta` (SEP-414); if it names no trace, the headers do
 * @returns the parent of its span and, beside one from `_meta`, the context of the HTTP request
 */
export function originOf(
  meta: Readonly<Record<string, unknown>>,
  headers: Readonly<Record<string, unknown>>,
): Required<Pick<EntrySpanOptions, 'parent' | 'link'>> {
  const ofRequest = readTraceContext(meta);
  const ofHttp = readTraceContext(headers);
  if (ofRequest === null) return { parent: ofHttp, link: null };
  const isSame = ofHttp?.traceparent === ofRequest.traceparent;
  return { parent: ofRequest, link: isSame ? null : ofHttp };
}

export function traceIdOf({ traceparent }: TraceContext): string {
  return traceparent.slice(3, 35);
}

/** Returns headers or `_meta` with the context of a span in place of that of the client. */
export function withContext<Value>(
  bag: Readonly<Record<string, Value>>,
  span: Span | null | undefined,
): Readonly<Record<string, Value | string>> {
  if (span === null || span === undefined) return bag;
  const { traceparent: _parent, tracestate: _state, ...rest } = bag;
  return { ...rest, ...span.context };
}

const CLIENT_FAULTS: ReadonlySet<number> = new Set([
  ErrorCode.parseError,
  ErrorCode.invalidRequest,
  ErrorCode.methodNotFound,
  ErrorCode.invalidParams,
  // Resource not found, of earlier revisions.
  -32002,
]);

/** Tells whether an error code says that the client's request was wrong. */
export function isClientFault(code: number): boolean {
  return CLIENT_FAULTS.has(code) || isModernError(code);
}
