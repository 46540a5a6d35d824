/** A server of the official Python SDK, version 1, that keeps no sessions: its questions have no way back. */
import { describe, expect, test } from 'vitest';
import { callTool } from '../fixtures/clients/modern-client.ts';
import { askedStage } from '../fixtures/real-servers/asked-testbed.ts';
import { startPythonStoreServer } from '../fixtures/real-servers/python/python-server.ts';

describe('a stateless server of the Python SDK', { tags: ['python'] }, () => {
  const stage = askedStage(() => startPythonStoreServer('stateless'), '/mcp');

  // Rule questions-6.
  test('ends a call in which it asks at once, with the cause', async () => {
    const { response } = await callTool(stage.gateway.url, 'keep', { arguments: { who: 'Ada' } });
    expect(response.error?.data).toEqual({
      reason: 'call_not_answerable',
      cause: 'no_session_id',
      mayHaveActed: 'yes',
      help: 'mrtr-gateway/docs/operate/errors.md#call_not_answerable',
    });
  });
});
