/** A server of 2026-07-28 alone, of the official SDK, over HTTP: it refuses `initialize`. */
import { createServer } from 'node:http';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, inputRequired, Server } from '@modelcontextprotocol/server';
import { answerOf, echoOf, FORM, TOOLS } from './tools.mjs';

function modernServer() {
  const server = new Server({ name: 'modern', version: '1.0.0' }, { capabilities: { tools: {} } });
  server.setRequestHandler('tools/list', () => ({ tools: TOOLS }));
  server.setRequestHandler('tools/call', ({ params }, { mcpReq }) => {
    if (params.name !== 'ask') return echoOf(params.arguments);
    const answer = mcpReq.inputResponses?.name;
    if (answer !== undefined) return answerOf(answer);
    return inputRequired({ inputRequests: { name: inputRequired.elicit(FORM) } });
  });
  return server;
}

const handler = toNodeHandler(createMcpHandler(modernServer, { legacy: 'reject' }));
createServer((request, response) => void handler(request, response)).listen(
  Number(process.argv[2]),
  '127.0.0.1',
);
