/** The text of `--help`: how to use each command, with examples. */
import { CONNECTABLE_NAMES } from '../connect/clients.ts';
import { EXIT, EXIT_MEANINGS } from './exit-codes.ts';
import { ADMIN_URL, FLAGS, SEAL_KEY_VARIABLE, type CommandName, type Flag } from './flags.ts';

const TEXTS: Readonly<Record<CommandName, string>> = {
  serve: `Usage:
  mrtr-gateway [serve] --upstream URL [flags]
  mrtr-gateway [serve] --stdio [flags] -- COMMAND [ARGUMENT ...]
  mrtr-gateway [serve] --config FILE [flags]
  mrtr-gateway [serve] --from FILE [flags]
  mrtr-gateway check FILE
  mrtr-gateway probe URL [flags]
  mrtr-gateway probe --stdio [flags] -- COMMAND [ARGUMENT ...]
  mrtr-gateway doctor [--config FILE | --upstream URL | --stdio -- COMMAND ...] [--json]
  mrtr-gateway connect [CLIENT] [--url URL] [--name NAME] [--print]
  mrtr-gateway mcp.json FILE
  mrtr-gateway top [URL] [--once]
  mrtr-gateway keygen [--format FORMAT]
  mrtr-gateway completion SHELL
  mrtr-gateway help [COMMAND]
  mrtr-gateway version

Runs a reverse proxy that lets modern MCP clients (2026-07-28) use a legacy MCP server.
A question that the server asks in the middle of a call becomes an InputRequiredResult.
"mrtr-gateway help COMMAND" prints the help of another command: check, probe,
doctor, connect, mcp.json, top, keygen, completion.

Examples:
  # Serve the server on port 3001 as http://127.0.0.1:8080/mcp
  mrtr-gateway --upstream http://127.0.0.1:3001/mcp

  # Run a server that speaks over stdio, one process for each session
  mrtr-gateway --stdio -- npx -y @modelcontextprotocol/server-everything
  mrtr-gateway --stdio --env LOG_LEVEL=debug -- uvx mcp-server-git

  # Serve all servers of a file that you have for a client, each at /NAME/mcp
  mrtr-gateway --from .mcp.json

  # Listen on all interfaces, without an admin listener
  mrtr-gateway --upstream http://127.0.0.1:3001/mcp --listen :8080 --admin off

  # Find out what the server speaks and what to configure
  mrtr-gateway probe http://127.0.0.1:3001/mcp

  # Check a configuration file, then use it
  mrtr-gateway check gateway.yaml && mrtr-gateway --config gateway.yaml
`,
  check: `Usage:
  mrtr-gateway check FILE
  mrtr-gateway check --schema

Checks a configuration file and prints one line for each problem, with file, line and
column. Resolves environment variables and file references as the gateway does. Then
prints a warning for each setting that is valid but risky. It contacts no server and no
Redis, and does not read the keys of identity.jwks: for those, see /readyz and the log.

Examples:
  mrtr-gateway check config/example.yaml
  mrtr-gateway check --schema > schema.json
`,
  probe: `Usage:
  mrtr-gateway probe URL [flags]
  mrtr-gateway probe --stdio [flags] -- COMMAND [ARGUMENT ...]

Finds out what an MCP server speaks: transport, revision, sessions, streams, resumption
and capabilities, and prints a configuration for it. Sends initialize, ping and list
requests, calls no tool unless --call names one, and ends its session.

Examples:
  mrtr-gateway probe http://127.0.0.1:3001/mcp
  mrtr-gateway probe https://mcp.example.com/mcp --header "Authorization: Bearer $TOKEN"
  mrtr-gateway probe http://127.0.0.1:3001/sse --json --timeout 30s
  mrtr-gateway probe --stdio -- npx -y @modelcontextprotocol/server-everything
`,
  doctor: `Usage:
  mrtr-gateway doctor --config FILE [flags]
  mrtr-gateway doctor --upstream URL [flags]
  mrtr-gateway doctor --stdio [flags] -- COMMAND [ARGUMENT ...]

Looks at what a gateway would meet, with the flags and variables of "serve", and prints one
line for each check: ok, warning or failed, and what to do. It looks at the configuration,
the server of each route, Redis, the keys of access tokens, the clock, open files, ports,
certificates, and what known clients will see. It starts no gateway, calls no tool, and can
run beside a gateway. A server over stdio is started and ended.

Examples:
  mrtr-gateway doctor --config config/example.yaml
  mrtr-gateway doctor --upstream http://127.0.0.1:3001/mcp --json
  mrtr-gateway doctor --stdio -- npx -y @modelcontextprotocol/server-everything
`,
  connect: `Usage:
  mrtr-gateway connect
  mrtr-gateway connect CLIENT [flags]

Without CLIENT, lists the clients that are found on this machine, with their files. With
one, shows what changes in its file, and writes it after a confirmation: an entry for a
route of the gateway, and the switch that the client needs to speak 2026-07-28, if it is in
that file. Nothing else in the file changes. A file that cannot be changed safely, such as
JSON with comments, is left as it is, and the entry is printed.
CLIENT is one of ${CONNECTABLE_NAMES.join(', ')}.

Examples:
  mrtr-gateway connect
  mrtr-gateway connect claude-code
  mrtr-gateway connect vscode --url http://127.0.0.1:8080/github/mcp --name github
  mrtr-gateway connect codex --print
`,
  'mcp.json': `Usage:
  mrtr-gateway mcp.json FILE

Prints a configuration file that is made from one that you have for a client, with
mcpServers or (VS Code) servers: each server is a route at /NAME/mcp. Values of env and
headers, queries and arguments such as --token are not printed. References such as
\${NAME} take their place, and the variables to set are named. What cannot be translated
is said. "mrtr-gateway --from FILE" serves the same at once, with the values of the file.

Examples:
  mrtr-gateway mcp.json .mcp.json > gateway.yaml
  mrtr-gateway mcp.json ~/.cursor/mcp.json
`,
  top: `Usage:
  mrtr-gateway top [URL] [--once]

Shows what happens now in a gateway, as its live page does: routes and their servers, the
calls that wait for their client, and the outcomes of the last ten minutes. URL is that of
the admin listener (default ${ADMIN_URL}). It refreshes every second; q or Ctrl-C quits.
NO_COLOR turns colors off.

Examples:
  mrtr-gateway top
  mrtr-gateway top http://127.0.0.1:9465
  mrtr-gateway top --once
`,
  keygen: `Usage:
  mrtr-gateway keygen [--format FORMAT]

Prints a new sealing key: for seal.keys in a configuration file, for an environment
variable, or for the file of --seal-key-file. The first key seals new pointers; every key
opens existing ones. Keep the keys secret.

Examples:
  mrtr-gateway keygen
  mrtr-gateway keygen --format env >> gateway.env
  mrtr-gateway keygen --format raw > seal.key
`,
  completion: `Usage:
  mrtr-gateway completion SHELL

Prints a script that completes commands and flags in bash, zsh or fish.

Examples:
  # For bash and zsh, in the file that starts the shell: eval "$(mrtr-gateway completion bash)"
  mrtr-gateway completion bash
  mrtr-gateway completion zsh
  mrtr-gateway completion fish > ~/.config/fish/completions/mrtr-gateway.fish
`,
};

const AFTERWORD = `With --config, the flags --listen, --admin, --workers, --log-level and --log-format, and their
variables, override the file. Everything else is in the file, which can refer to variables as
\${NAME}.
$${SEAL_KEY_VARIABLE} holds sealing keys as KID:KEY; the first key encrypts, all keys decrypt. It has no flag, since
every user of the machine can read command lines.
The log goes to standard error. SIGTERM and SIGINT finish running calls, then stop the gateway;
a second one stops it at once. With --config, SIGHUP loads the file again, as the gateway also
does when the file changes. Without a file, or if a terminal is attached, SIGHUP acts as SIGTERM.
`;

/** What the exit codes of a command mean, where they are more than success and failure. */
const CODES: Partial<Record<CommandName, string>> = {
  serve: columns(EXIT_MEANINGS),
  check: columns([
    [EXIT.ok, 'the file is valid; there may be warnings'],
    [EXIT.checkFailed, 'the file cannot be read, or has problems'],
    [EXIT.usage, 'wrong flags or arguments'],
  ]),
  probe: columns([
    [EXIT.ok, 'the server speaks MCP'],
    [EXIT.usage, 'wrong flags or arguments'],
    [EXIT.upstream, 'the server does not speak MCP, refuses the request, or cannot be reached'],
  ]),
  doctor: columns([
    [EXIT.ok, 'all is ok; there may be warnings'],
    [EXIT.checkFailed, 'something failed'],
    [EXIT.usage, 'wrong flags or arguments'],
  ]),
  connect: columns([
    [EXIT.ok, 'listed, printed or written, there already, or not confirmed'],
    [EXIT.checkFailed, 'the file cannot be changed safely, or not be written'],
    [EXIT.usage, 'wrong flags or arguments, or no terminal to ask on'],
  ]),
  'mcp.json': columns([
    [EXIT.ok, 'printed'],
    [EXIT.usage, 'wrong flags or arguments'],
    [EXIT.config, 'the file cannot be read, or has problems'],
  ]),
  top: columns([
    [EXIT.ok, 'done'],
    [EXIT.usage, 'wrong flags or arguments'],
    [EXIT.upstream, 'with --once: the admin listener cannot be read'],
  ]),
};

/** Formats the help of a command. */
export function helpFor(command: CommandName): string {
  const parts = [TEXTS[command], `Flags:\n${columns(FLAGS[command].map(flagLine))}`];
  if (command === 'serve') parts.push(AFTERWORD);
  const codes = CODES[command];
  if (codes !== undefined) parts.push(`Exit codes:\n${codes}`);
  return parts.join('\n');
}

function flagLine({ name, short, value, fallback, env, meaning }: Flag): [string, string] {
  const left = `${short === undefined ? '' : `-${short}, `}--${name}${value === undefined ? '' : ` ${value}`}`;
  const notes = [
    ...(fallback === undefined ? [] : [`default ${fallback}`]),
    ...(env === undefined ? [] : [`or $${env}`]),
  ];
  return [left, notes.length === 0 ? meaning : `${meaning} (${notes.join('; ')})`];
}

function columns(rows: readonly (readonly [left: string | number, right: string])[]): string {
  const width = Math.max(...rows.map(([left]) => String(left).length));
  return rows.map(([left, right]) => `  ${String(left).padEnd(width)}  ${right}\n`).join('');
}
