/** The requests of the benchmark as they go over the wire: a modern client's and a legacy client's. */
export interface HttpCall {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export type Tool = 'echo' | 'ask' | 'quiet';

/** The header in which the gateway is told who calls, so that sessions are pooled. */
export const PRINCIPAL_HEADER = 'x-bench-principal';

const ACCEPT = 'application/json, text/event-stream';
const CLIENT = { name: 'bench', version: '1.0.0' };
const CAPABILITIES = { elicitation: { form: {} } };
const DECLARED = 'io.modelcontextprotocol/clientCapabilities';
const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': CLIENT,
  [DECLARED]: CAPABILITIES,
};

/** Stands in the arguments of one call only, so that an answer shows to which call it belongs. */
export function markOf(callNumber: number): string {
  return `<call ${callNumber}>`;
}

/** The arguments of a call of `echo` or `ask`. */
export function argumentsOf(callNumber: number) {
  const detail = ['wind', 'rain', 'sun'];
  return { city: 'Ljubljana', days: 3, units: 'metric', detail, mark: markOf(callNumber) };
}

/** What the requests of a client have beside their params. */
export interface RequestOptions {
  /** What the header `Mcp-Name` says. */
  readonly name?: string;
  /** Who calls; `null` for an anonymous caller. */
  readonly principal?: string | null;
  /** Further members of `_meta`. */
  readonly meta?: object;
}

/** A request of revision 2026-07-28. */
export function modernRequest(
  method: string,
  id: number,
  params: object,
  { name, principal = 'bench', meta = {} }: RequestOptions = {},
): HttpCall {
  const whole = { ...params, _meta: { ...META, ...meta } };
  return {
    headers: {
      'content-type': 'application/json',
      accept: ACCEPT,
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': method,
      ...(name === undefined ? {} : { 'mcp-name': name }),
      ...(principal === null ? {} : { [PRINCIPAL_HEADER]: principal }),
    },
    body: JSON.stringify({ jsonrpc: '2.0', id, method, params: whole }),
  };
}

/**
 * A `tools/call` of revision 2026-07-28.
 * @param callNumber the JSON-RPC id, and what marks the arguments
 * @param retry the answers and the state of a round, when this is a retry
 * @param principal who calls; `null` for an anonymous caller
 * @param more further arguments
 */
export function modernCall(
  tool: Tool,
  callNumber: number,
  retry: object = {},
  principal: string | null = 'bench',
  more: object = {},
): HttpCall {
  const args = { ...argumentsOf(callNumber), ...more };
  const params = { name: tool, arguments: args, ...retry };
  return modernRequest('tools/call', callNumber, params, { name: tool, principal });
}

/** A `server/discover` of a caller with credentials of its own, for which the server has to be asked. */
export function discoverRequest(): HttpCall {
  const { headers, body } = modernRequest('server/discover', 1, {});
  return { headers: { ...headers, authorization: 'Bearer bench' }, body };
}

/** What a client that knows tasks declares in `_meta`. */
export const KNOWS_TASKS = {
  [DECLARED]: { ...CAPABILITIES, extensions: { 'io.modelcontextprotocol/tasks': {} } },
};

/**
 * A request of a client that knows tasks: a call of the tool that asks, or about a task.
 * @param task what it is about
 * @param more further params
 */
export function taskRequest(
  method: 'tools/call' | 'tasks/get' | 'tasks/update',
  id: number,
  task?: { readonly taskId: string },
  more: object = {},
): HttpCall {
  const name = task === undefined ? 'ask' : task.taskId;
  const of = task === undefined ? { name, arguments: argumentsOf(id) } : { taskId: name };
  return modernRequest(method, id, { ...of, ...more }, { name, meta: KNOWS_TASKS });
}

/** The same call as a client of 2025-11-25 makes it in a session, and as the gateway makes it upstream. */
export function legacyCall(tool: Tool, callNumber: number, session: string): HttpCall {
  const params = { name: tool, arguments: argumentsOf(callNumber) };
  return legacy({ id: callNumber, method: 'tools/call', params }, session);
}

/** The answer to a question of the server. */
export function legacyAnswer(
  questionId: string | number,
  callNumber: number,
  session: string,
): HttpCall {
  return legacy({ id: questionId, result: acceptedIn(callNumber) }, session);
}

/** What the client answers to the question of this call; the upstream's result repeats it. */
export function acceptedIn(callNumber: number) {
  return { action: 'accept', content: { name: markOf(callNumber) } };
}

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
      [PRINCIPAL_HEADER]: 'bench',
      ...(session === null ? {} : { 'mcp-session-id': session }),
    },
    body: JSON.stringify({ jsonrpc: '2.0', ...message }),
  };
}
