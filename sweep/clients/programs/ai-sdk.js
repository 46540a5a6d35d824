/** Lists and calls with the MCP client of the Vercel AI SDK. */
import { createMCPClient, ElicitationRequestSchema } from '@ai-sdk/mcp';

const [url, text] = process.argv.slice(2);
const client = await createMCPClient({
  transport: { type: 'http', url },
  capabilities: { elicitation: {} },
});
client.onElicitationRequest(ElicitationRequestSchema, () => ({
  action: 'accept',
  content: { name: 'Ada' },
}));
const tools = await client.tools();
const options = { toolCallId: 'one', messages: [] };
try {
  console.log(JSON.stringify(await tools.echo.execute({ text }, options)));
  console.log(JSON.stringify(await tools.ask.execute({}, options)));
} finally {
  await client.close();
}
