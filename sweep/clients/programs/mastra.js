/** Lists and calls with the MCP client of Mastra. */
import { MCPClient } from '@mastra/mcp';

const [url, text] = process.argv.slice(2);
const answer = { action: 'accept', content: { name: 'Ada' } };
const client = new MCPClient({
  servers: { gate: { url: new URL(url), inputRequests: () => Promise.resolve(answer) } },
});
try {
  const tools = await client.listTools();
  console.log(JSON.stringify(await tools.gate_echo.execute({ text })));
  console.log(JSON.stringify(await tools.gate_ask.execute({})));
} finally {
  await client.disconnect();
}
