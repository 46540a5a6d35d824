/** A legacy server over stdio, of the official SDK: `ask` asks and repeats the answer, `echo` is at once, `quiet` works for a while. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js';

const server = new Server({ name: 'bench', version: '1.0.0' }, { capabilities: { tools: {} } });
const NAMES = ['ask', 'echo', 'quiet'];

server.setRequestHandler(ListToolsRequestSchema, () => ({
  tools: NAMES.map((name) => ({ name, inputSchema: { type: 'object' } })),
}));

server.setRequestHandler(CallToolRequestSchema, async ({ params }) => {
  const { name, arguments: args = {} } = params;
  if (name === 'quiet') await sleep(Number(args['ms']));
  if (name !== 'ask') return { content: [{ type: 'text', text: JSON.stringify(args) }] };
  const { content = {} } = await server.elicitInput({
    message: 'Your name?',
    requestedSchema: { type: 'object', properties: { name: { type: 'string' } } },
  });
  return { content: [{ type: 'text', text: String(content['name']) }] };
});

await server.connect(new StdioServerTransport());
