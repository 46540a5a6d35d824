"""Lists and calls with the MCP client of Strands Agents, which answers a form.

Usage: python strands_client.py URL TEXT
"""

import sys
from typing import Any

from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult
from strands.tools.mcp import MCPClient


async def answer(_context: Any, _params: Any) -> ElicitResult:
    return ElicitResult(action="accept", content={"name": "Ada"})


url, text = sys.argv[1:]
with MCPClient(lambda: streamable_http_client(url), elicitation_callback=answer) as client:
    client.list_tools_sync()
    print(client.call_tool_sync("one", "echo", {"text": text}))
    print(client.call_tool_sync("two", "ask", {}))
