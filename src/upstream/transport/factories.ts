/** Creates the transports of servers over HTTP. */
import type { Clock } from '../../lib/clock.ts';
import type { LegacyTransport } from '../discovery/detection.ts';
import type { HttpClient } from '../http/client.ts';
import { HttpSseTransport } from './http-sse/http-sse.ts';
import { StreamableHttpTransport, type StreamableHttpOptions } from './streamable-http.ts';
import type { Transport, TransportListener } from './transport.ts';

export interface FactoryOptions extends StreamableHttpOptions {
  /** Called with the URL that a server of HTTP+SSE wants messages posted to. */
  readonly onEndpoint?: (endpoint: URL) => void;
}

type Factory = (
  http: HttpClient,
  listener: TransportListener,
  clock: Clock,
  options: FactoryOptions,
) => Transport;

const FACTORIES: Readonly<Record<LegacyTransport, Factory>> = {
  'streamable-http': (...given) => new StreamableHttpTransport(...given),
  'http-sse': (http, listener, clock, { onEndpoint }) =>
    new HttpSseTransport(http, listener, clock, onEndpoint),
};

/** Returns what connects a session to a server that speaks this. */
export function connector(
  kind: LegacyTransport,
  http: HttpClient,
  clock: Clock,
  options: FactoryOptions,
): (listener: TransportListener) => Transport {
  return (listener) => FACTORIES[kind](http, listener, clock, options);
}
