/** The span of a client's request, by the conventions of OpenTelemetry for MCP servers. */
import type { CallReply } from '../model/request.ts';
import {
  isClientFault,
  loggedTarget,
  mcpOperation,
  type EntrySpanOptions,
  type Span,
  type Tracer,
} from '../ops/tracing.ts';
import type { ClientRequestId } from '../protocol/ids.ts';
import type { JsonObject } from '../protocol/json.ts';

/** A request that a span tells of. */
export interface SpannedRequest {
  readonly id: ClientRequestId;
  readonly method: string;
  readonly params: JsonObject;
}

/** @param revision as far as the request says it */
export function startSpan(
  tracer: Tracer,
  route: string,
  { id, method, params }: SpannedRequest,
  revision: string | null,
  origin: Pick<EntrySpanOptions, 'parent' | 'link'>,
): Span {
  const operation = mcpOperation('server', method, loggedTarget(method, params), {
    ...(revision !== null && { 'mcp.protocol.version': revision }),
    'jsonrpc.request.id': String(id),
    'network.transport': 'tcp',
    'network.protocol.name': 'http',
    'mrtr_gateway.route': route,
  });
  return tracer.start({ ...operation, ...origin });
}

/** Ends the span with the reply to the request. A fault of the client is not an error of ours. */
export function endSpan(span: Span, reply: CallReply): void {
  if (reply.kind === 'failed') {
    const { code } = reply.failure.error;
    span.set({ 'rpc.response.status_code': String(code), 'mrtr_gateway.outcome': 'failed' });
    return span.end(isClientFault(code) ? null : String(code));
  }
  const { resultType, isError } = reply.result;
  span.set({ 'mrtr_gateway.outcome': typeof resultType === 'string' ? resultType : 'complete' });
  span.end(isError === true ? 'tool_error' : null);
}
