/** The kinds of legacy server that conformance is shown for. */
import type { LegacyConformanceOptions } from '../fixtures/conformance/process.ts';

/**
 * Over HTTP+SSE there is one stream for everything a server says, so asking beside the call and asking on
 * its stream are the same bytes there: once is enough.
 */
export const LEGACY_SERVERS: readonly LegacyConformanceOptions[] = [
  { transport: 'streamable-http', asks: 'related', ids: 'numeric' },
  { transport: 'streamable-http', asks: 'related', ids: 'string' },
  { transport: 'streamable-http', asks: 'standalone', ids: 'string' },
  { transport: 'http-sse', asks: 'related', ids: 'string' },
];
