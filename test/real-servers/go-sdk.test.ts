/**
 * A server of the official Go SDK behind the gateway. Runs where `MCP_GO_SERVER` names its binary:
 * `go build -C test/fixtures/real-servers/go-server -o "$PWD/results/go-server" .`
 */
import { describe } from 'vitest';
import { startServer } from '../fixtures/processes.ts';
import { askedStage } from '../fixtures/real-servers/asked-testbed.ts';
import { travelPromises } from '../fixtures/real-servers/travel-promises.ts';

const GO_SERVER = process.env['MCP_GO_SERVER'] ?? '';

describe.skipIf(GO_SERVER === '').each([
  { answers: 'Streamable HTTP with streams', path: '/mcp' },
  { answers: 'Streamable HTTP with JSON', path: '/json' },
  { answers: 'HTTP+SSE', path: '/sse' },
])('a server of the Go SDK over $answers (needs MCP_GO_SERVER, its binary)', ({ path }) => {
  travelPromises(askedStage(() => startServer(GO_SERVER, [], { ready: /listening on/ }), path));
});
