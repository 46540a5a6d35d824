/**
 * A server of the official SDK whose tool asks by its result (2026-07-28). At `/modern` it speaks that revision alone. At `/legacy` it
 * keeps sessions for legacy clients, and the SDK asks them in place of the tool.
 */
import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { NodeStreamableHTTPServerTransport, toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, inputRequired, Server } from '@modelcontextprotocol/server';
import { announcePort } from '../processes/announce.ts';

const FORM = {
  message: 'Your name?',
  requestedSchema: { type: 'object' as const, properties: { name: { type: 'string' as const } } },
};

function askingServer(): Server {
  const server = new Server({ name: 'bench', version: '1.0.0' }, { capabilities: { tools: {} } });
  server.setRequestHandler('tools/list', () => ({
    tools: [{ name: 'ask', inputSchema: { type: 'object' as const } }],
  }));
  server.setRequestHandler('tools/call', (_request, { mcpReq: { inputResponses = {} } }) => {
    if (!('name' in inputResponses)) {
      return inputRequired({ inputRequests: { name: inputRequired.elicit(FORM) } });
    }
    return { content: [{ type: 'text' as const, text: JSON.stringify(inputResponses['name']) }] };
  });
  return server;
}

const modern = toNodeHandler(createMcpHandler(askingServer, { legacy: 'reject' }));
const sessions = new Map<string, NodeStreamableHTTPServerTransport>();

async function legacy(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const known = sessions.get(String(request.headers['mcp-session-id']));
  if (known !== undefined) return known.handleRequest(request, response);
  const transport = new NodeStreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (id) => void sessions.set(id, transport),
  });
  await askingServer().connect(transport);
  await transport.handleRequest(request, response);
}

const server = createServer((request, response) => {
  if (request.url === '/legacy') void legacy(request, response);
  else void modern(request as Parameters<typeof modern>[0], response);
});
server.listen(0, '127.0.0.1', () => announcePort(server));
