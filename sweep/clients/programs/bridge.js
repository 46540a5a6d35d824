/** A legacy client over stdio, in front of a bridge that speaks HTTP to a server: lists, calls, and answers a form. */
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';

const [text, command, ...args] = process.argv.slice(2);
const client = new Client(
  { name: 'bridged', version: '1.0.0' },
  { capabilities: { elicitation: {} } },
);
client.setRequestHandler(ElicitRequestSchema, () => ({
  action: 'accept',
  content: { name: 'Ada' },
}));
await client.connect(new StdioClientTransport({ command, args, env: process.env }));
try {
  await client.listTools();
  console.log(await client.callTool({ name: 'echo', arguments: { text } }));
  console.log(await client.callTool({ name: 'ask', arguments: {} }));
} finally {
  await client.close();
}
