"""Lists and calls with the MCP toolset of Pydantic AI, which answers a form.

Usage: python pydantic_ai_toolset.py URL TEXT
"""

import asyncio
import sys
from typing import Any

from pydantic_ai.mcp import MCPToolset


async def answer(_message: str, _type: Any, _params: Any, _context: Any) -> dict[str, str]:
    return {"name": "Ada"}


async def main(url: str, text: str) -> None:
    async with MCPToolset(url, elicitation_handler=answer) as toolset:
        await toolset.list_tools()
        print(await toolset.direct_call_tool("echo", {"text": text}))
        print(await toolset.direct_call_tool("ask", {}))


asyncio.run(main(sys.argv[1], sys.argv[2]))
