"""Lists and calls with the client of the official Python SDK, which answers a form.

Usage: python python_sdk.py URL TEXT
"""

import asyncio
import sys
from typing import Any

import mcp.types as types
from mcp import Client


async def answer(_context: Any, _params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"name": "Ada"})


async def main(url: str, text: str) -> None:
    async with Client(url, elicitation_callback=answer) as client:
        await client.list_tools()
        print(await client.call_tool("echo", {"text": text}))
        print(await client.call_tool("ask", {}))


asyncio.run(main(sys.argv[1], sys.argv[2]))
