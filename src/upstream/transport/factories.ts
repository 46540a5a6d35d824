/** Creates the transports of servers over HTTP. */
import type { Clock } from '../../lib/clock.ts';
import type { LegacyTransport } from '../discovery/detection.ts';
import type { HttpClient } from '../http/client.ts';
import { HttpSseTransport, type HttpSseOptions } from './http-sse/http-sse.ts';
import { StreamableHttpTransport, type StreamableHttpOptions } from './streamable-http.ts';
import type { Transport, TransportListener } from './transport.ts';

const TRANSPORTS = {
  'streamable-http': StreamableHttpTransport,
  'http-sse': HttpSseTransport,
} as const satisfies Record<LegacyTransport, unknown>;

/** Returns what connects a session to a server that speaks this. */
export function connector(
  kind: LegacyTransport,
  http: HttpClient,
  clock: Clock,
  options: StreamableHttpOptions & HttpSseOptions,
): (listener: TransportListener) => Transport {
  return (listener) => new TRANSPORTS[kind](http, listener, clock, options);
}
