/**
 * A server of the official Go SDK behind the gateway. Runs where `MCP_GO_SERVER` names its binary:
 * `go build -C test/fixtures/real-servers/go-server -o "$PWD/results/go-server" .`
 */
import { describe } from 'vitest';
import { startServer } from '../fixtures/processes.ts';
import { askedStage } from '../fixtures/real-servers/asked-testbed.ts';
import { travelPromises } from '../fixtures/real-servers/travel-promises.ts';
import { GO_SERVER } from '../run/needs.ts';

describe.each([
  { answers: 'Streamable HTTP with streams', path: '/mcp' },
  { answers: 'Streamable HTTP with JSON', path: '/json' },
  { answers: 'HTTP+SSE', path: '/sse' },
])('a server of the Go SDK over $answers', { tags: ['go'] }, ({ path }) => {
  travelPromises(
    askedStage(() => startServer(String(GO_SERVER), [], { ready: /listening on/ }), path),
  );
});
