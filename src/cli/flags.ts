/** The flags of all commands. The parser and the help use the same list. */

export const COMMANDS = ['serve', 'check', 'probe', 'keygen'] as const;
export type CommandName = (typeof COMMANDS)[number];

export interface Flag {
  readonly name: string;
  readonly short?: string;
  /** The placeholder of the value in the help. Without it the flag has no value. */
  readonly value?: string;
  readonly fallback?: string;
  /** The environment variable that is used if the flag is not given. */
  readonly env?: string;
  /** Can be given several times. */
  readonly repeatable?: true;
  readonly meaning: string;
}

const HELP: Flag = { name: 'help', short: 'h', meaning: 'print this help' };

const ENV: Flag = {
  name: 'env',
  value: 'NAME[=VALUE]',
  repeatable: true,
  meaning: 'a variable for the command of --stdio; repeatable',
};

export const FLAGS: Readonly<Record<CommandName, readonly Flag[]>> = {
  serve: [
    {
      name: 'upstream',
      value: 'URL',
      env: 'MRTR_GATEWAY_UPSTREAM',
      meaning: 'the legacy MCP server',
    },
    {
      name: 'stdio',
      meaning: 'the server is the command after "--", in place of --upstream',
    },
    ENV,
    {
      name: 'config',
      value: 'FILE',
      env: 'MRTR_GATEWAY_CONFIG',
      meaning: 'a YAML or JSON file, instead of --upstream',
    },
    {
      name: 'listen',
      value: 'HOST:PORT',
      fallback: '127.0.0.1:8080',
      env: 'MRTR_GATEWAY_LISTEN',
      meaning: 'where clients connect; :8080 for all interfaces',
    },
    { name: 'path', value: 'PATH', fallback: '/mcp', meaning: 'the public path' },
    {
      name: 'public-url',
      value: 'URL',
      meaning: 'the URL for clients, for which a server behind OAuth takes tokens',
    },
    {
      name: 'admin',
      value: 'HOST:PORT',
      fallback: '127.0.0.1:9090',
      meaning: 'address of /healthz, /readyz and /metrics; off disables it',
    },
    {
      name: 'workers',
      value: 'N',
      fallback: '1',
      env: 'MRTR_GATEWAY_WORKERS',
      meaning: 'processes that serve the clients; auto for one per core',
    },
    {
      name: 'transport',
      value: 'KIND',
      fallback: 'auto',
      meaning: 'upstream transport: auto, streamable-http, http-sse',
    },
    {
      name: 'log-level',
      value: 'LEVEL',
      fallback: 'info',
      env: 'MRTR_GATEWAY_LOG_LEVEL',
      meaning: 'trace, debug, info, warn, error, fatal',
    },
    {
      name: 'log-format',
      value: 'FORMAT',
      fallback: 'auto',
      meaning: 'auto (pretty on a terminal), json, pretty',
    },
    { name: 'version', short: 'V', meaning: 'the version of this program' },
    HELP,
  ],
  check: [
    { name: 'schema', meaning: 'print the JSON Schema of configuration files instead' },
    HELP,
  ],
  probe: [
    { name: 'stdio', meaning: 'probe the command after "--", in place of a URL' },
    ENV,
    { name: 'json', meaning: 'print one JSON document, for programs' },
    {
      name: 'header',
      value: 'NAME:VALUE',
      repeatable: true,
      meaning: 'a header for the server; repeatable',
    },
    {
      name: 'timeout',
      value: 'DURATION',
      fallback: '10s',
      meaning: 'timeout of the whole probe',
    },
    HELP,
  ],
  keygen: [HELP],
};
