/** The requests of the benchmark as they go over the wire: a modern client's and a legacy client's. */
export interface HttpCall {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export type Tool = 'echo' | 'ask';

/** The header in which the gateway is told who calls, so that sessions are pooled. */
export const PRINCIPAL_HEADER = 'x-bench-principal';

const ARGUMENTS = { city: 'Ljubljana', days: 3, units: 'metric', detail: ['wind', 'rain', 'sun'] };
const ACCEPT = 'application/json, text/event-stream';
const CLIENT = { name: 'bench', version: '1.0.0' };
const CAPABILITIES = { elicitation: { form: {} } };
const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': CLIENT,
  'io.modelcontextprotocol/clientCapabilities': CAPABILITIES,
};

/**
 * A `tools/call` of revision 2026-07-28.
 * @param retry the answers and the state of a round, when this is a retry
 */
export function modernCall(tool: Tool, id: number, retry: object = {}): HttpCall {
  const params = { name: tool, arguments: ARGUMENTS, ...retry, _meta: META };
  return {
    headers: {
      'content-type': 'application/json',
      accept: ACCEPT,
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/call',
      'mcp-name': tool,
      [PRINCIPAL_HEADER]: 'bench',
    },
    body: JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params }),
  };
}

/** The same call as a client of 2025-11-25 makes it in a session, and as the gateway makes it upstream. */
export function legacyCall(tool: Tool, id: number, session: string): HttpCall {
  return legacy(
    { id, method: 'tools/call', params: { name: tool, arguments: ARGUMENTS } },
    session,
  );
}

/** The answer to a question of the server. */
export function legacyAnswer(questionId: number, session: string): HttpCall {
  return legacy({ id: questionId, result: ACCEPTED }, session);
}

export const ACCEPTED = { action: 'accept', content: { name: 'Ada' } };

export function legacyInitialize(): HttpCall {
  const params = { protocolVersion: '2025-11-25', capabilities: CAPABILITIES, clientInfo: CLIENT };
  return legacy({ id: 0, method: 'initialize', params }, null);
}

export function legacyInitialized(session: string): HttpCall {
  return legacy({ method: 'notifications/initialized' }, session);
}

function legacy(message: object, session: string | null): HttpCall {
  return {
    headers: {
      'content-type': 'application/json',
      accept: ACCEPT,
      'mcp-protocol-version': '2025-11-25',
      ...(session === null ? {} : { 'mcp-session-id': session }),
    },
    body: JSON.stringify({ jsonrpc: '2.0', ...message }),
  };
}
