"""Lists and calls with the MCP adapters of LangChain, which answer a form.

Usage: python langchain_adapters.py URL TEXT
"""

import asyncio
import sys
from typing import Any

from langchain_mcp_adapters.callbacks import Callbacks
from langchain_mcp_adapters.client import MultiServerMCPClient
from mcp.types import ElicitResult


async def answer(_context: Any, _params: Any, _callback: Any) -> ElicitResult:
    return ElicitResult(action="accept", content={"name": "Ada"})


async def main(url: str, text: str) -> None:
    client = MultiServerMCPClient(
        {"gate": {"transport": "streamable_http", "url": url}},
        callbacks=Callbacks(on_elicitation=answer),
    )
    tools = {tool.name: tool for tool in await client.get_tools()}
    print(await tools["echo"].ainvoke({"text": text}))
    print(await tools["ask"].ainvoke({}))


asyncio.run(main(sys.argv[1], sys.argv[2]))
