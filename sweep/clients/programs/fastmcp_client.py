"""Lists and calls with the client of FastMCP, which answers a form.

Usage: python fastmcp_client.py URL TEXT
"""

import asyncio
import sys
from typing import Any

from fastmcp import Client


async def answer(_message: str, _type: Any, _params: Any, _context: Any) -> dict[str, str]:
    return {"name": "Ada"}


async def main(url: str, text: str) -> None:
    async with Client(url, elicitation_handler=answer) as client:
        await client.list_tools()
        print(await client.call_tool("echo", {"text": text}))
        print(await client.call_tool("ask", {}))


asyncio.run(main(sys.argv[1], sys.argv[2]))
