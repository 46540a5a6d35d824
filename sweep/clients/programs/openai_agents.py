"""Lists and calls with the MCP client of the OpenAI Agents SDK.

Usage: python openai_agents.py URL TEXT
"""

import asyncio
import sys

from agents.mcp import MCPServerStreamableHttp


async def main(url: str, text: str) -> None:
    async with MCPServerStreamableHttp(params={"url": url}) as server:
        await server.list_tools()
        print(await server.call_tool("echo", {"text": text}))
        print(await server.call_tool("ask", {}))


asyncio.run(main(sys.argv[1], sys.argv[2]))
