/**
 * A server of the official Python SDK, version 1, behind the gateway. Runs where `MCP_PYTHON` names a
 * Python that has it: `python3 -m venv venv && venv/bin/pip install 'mcp<2'`.
 */
import { describe } from 'vitest';
import { askedStage } from '../fixtures/real-servers/asked-testbed.ts';
import { PYTHON_STDIO, startPythonServer } from '../fixtures/real-servers/python/python-server.ts';
import { travelPromises } from '../fixtures/real-servers/travel-promises.ts';

describe.each([
  { transport: 'streamable-http', path: '/mcp' },
  { transport: 'sse', path: '/sse' },
] as const)(
  'a server of the Python SDK over $transport',
  { tags: ['python'] },
  ({ transport, path }) => {
    travelPromises(askedStage(() => startPythonServer(transport), path));
  },
);

// Each client has a process, and each test a client.
describe('a server of the Python SDK over stdio', { tags: ['python', 'long'] }, () => {
  travelPromises(askedStage(PYTHON_STDIO, ''));
});
