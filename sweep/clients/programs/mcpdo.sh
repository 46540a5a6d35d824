# Lists, calls, and answers a form with mcpdo of MCP Inspector, which keeps the connection in a process of its own.
# Usage: sh mcpdo.sh MCPDO CONFIG TEXT
program=$1
eval "$("$program" private)"
mcpdo() { "$program" --format json "$@"; }

mcpdo connect gate --era auto --config "$2"
mcpdo @gate tools/list
mcpdo @gate tools/call echo "text:=\"$3\""
asked=$(mcpdo @gate tools/call ask)
echo "$asked"
id=$(echo "$asked" | sed -n 's/.*"elicitationId": *"\([^"]*\)".*/\1/p' | head -n 1)
mcpdo @gate elicitation/respond "$id" 'name:="Ada"'
mcpdo disconnect gate
mcpdo daemon stop
