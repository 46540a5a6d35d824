/**
 * A legacy server (2025-11-25) of the official SDK, with a tool that answers and one that asks. Over stdio, or over Streamable HTTP
 * with sessions if it is given a port.
 */
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import {
  CallToolRequestSchema,
  isInitializeRequest,
  ListToolsRequestSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { answerOf, echoOf, FORM, TOOLS } from './tools.js';

function legacyServer() {
  const server = new Server({ name: 'legacy', version: '1.0.0' }, { capabilities: { tools: {} } });
  server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: TOOLS }));
  server.setRequestHandler(CallToolRequestSchema, async ({ params }) =>
    params.name === 'ask' ? answerOf(await server.elicitInput(FORM)) : echoOf(params.arguments),
  );
  return server;
}

const [port] = process.argv.slice(2);
if (port === undefined) await legacyServer().connect(new StdioServerTransport());
else
  createServer((request, response) => void serve(request, response)).listen(
    Number(port),
    '127.0.0.1',
  );

const sessions = new Map();

async function serve(request, response) {
  const body = request.method === 'POST' ? JSON.parse(await textOf(request)) : undefined;
  const known = sessions.get(request.headers['mcp-session-id']);
  if (known !== undefined) return await known.handleRequest(request, response, body);
  if (!isInitializeRequest(body)) return response.writeHead(404).end();
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (id) => sessions.set(id, transport),
    onsessionclosed: (id) => sessions.delete(id),
  });
  await legacyServer().connect(transport);
  await transport.handleRequest(request, response, body);
}

async function textOf(request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}
