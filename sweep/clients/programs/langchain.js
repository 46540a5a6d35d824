/** Lists and calls with the MCP adapters of LangChain. */
import { MultiServerMCPClient } from '@langchain/mcp-adapters';

const [url, text] = process.argv.slice(2);
const client = new MultiServerMCPClient({ mcpServers: { gate: { transport: 'http', url } } });
try {
  const tools = await client.getTools();
  const tool = (name) => tools.find((tool) => tool.name.endsWith(name));
  console.log(await tool('echo').invoke({ text }));
  console.log(await tool('ask').invoke({}));
} finally {
  await client.close();
}
