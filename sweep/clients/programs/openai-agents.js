/** Lists and calls with the MCP client of the OpenAI Agents SDK. */
import { MCPServerStreamableHttp } from '@openai/agents';

const [url, text] = process.argv.slice(2);
const server = new MCPServerStreamableHttp({ url });
await server.connect();
try {
  console.log(await server.listTools());
  console.log(await server.callTool('echo', { text }));
  console.log(await server.callTool('ask', {}));
} finally {
  await server.close();
}
