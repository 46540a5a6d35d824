/** The flags of all commands. The parser and the help use the same list. */

export const COMMANDS = [
  'serve',
  'check',
  'probe',
  'doctor',
  'connect',
  'mcp.json',
  'top',
  'keygen',
  'completion',
] as const;
export type CommandName = (typeof COMMANDS)[number];

export interface Flag {
  readonly name: string;
  readonly short?: string;
  /** The placeholder of the value in the help. Without it the flag has no value. */
  readonly value?: string;
  readonly fallback?: string;
  /** The environment variable that is used if the flag is not given: `--log-level` has `MRTR_GATEWAY_LOG_LEVEL`. */
  readonly env?: string;
  /** Can be given several times. */
  readonly repeatable?: boolean;
  readonly meaning: string;
}

const HELP: Flag = { name: 'help', short: 'h', meaning: 'print this help' };

const ENV: Flag = {
  name: 'env',
  value: 'NAME[=VALUE]',
  repeatable: true,
  meaning: 'an environment variable for the command of --stdio; repeatable',
};

const FROM: Flag = {
  name: 'from',
  value: 'FILE',
  meaning:
    'serve the servers of a file that you have for a client: mcpServers, or servers of VS Code',
};

/** Adds its variable to a flag that has a value. `--env` names variables itself, and `--from` is to try out. */
function withVariable(flag: Flag): Flag {
  if (flag.value === undefined || flag === ENV || flag === FROM) return flag;
  return { ...flag, env: `MRTR_GATEWAY_${flag.name.toUpperCase().replaceAll('-', '_')}` };
}

const TIMEOUT = { name: 'timeout', value: 'DURATION', fallback: '10s' };
const JSON_FLAG: Flag = { name: 'json', meaning: 'print one JSON document, for programs' };

const SERVE: readonly Flag[] = [
  { name: 'upstream', value: 'URL', meaning: 'the legacy MCP server' },
  { name: 'stdio', meaning: 'the server is the command after "--", in place of --upstream' },
  ENV,
  {
    name: 'config',
    short: 'c',
    value: 'FILE',
    meaning: 'a YAML or JSON file, instead of --upstream',
  },
  FROM,
  {
    name: 'listen',
    value: 'HOST:PORT',
    fallback: '127.0.0.1:8080',
    meaning: 'where clients connect; :8080 for all interfaces',
  },
  { name: 'path', value: 'PATH', fallback: '/mcp', meaning: 'the public path' },
  {
    name: 'public-url',
    value: 'URL',
    meaning: 'public URL of the gateway; also the OAuth resource that tokens are issued for',
  },
  {
    name: 'admin',
    value: 'HOST:PORT',
    fallback: '127.0.0.1:9464',
    meaning: 'the address of health, metrics and the live page; off disables it',
  },
  {
    name: 'workers',
    value: 'N',
    fallback: '1',
    meaning: 'processes that serve the clients; auto for one per core',
  },
  {
    name: 'transport',
    value: 'KIND',
    fallback: 'auto',
    meaning: 'upstream transport: auto, streamable-http, http-sse (or sse)',
  },
  {
    name: 'upstream-header',
    value: 'NAME:VALUE',
    repeatable: true,
    meaning: 'a header for the server; repeatable; one per line in the variable',
  },
  {
    name: 'max-event',
    value: 'SIZE',
    fallback: '32MiB',
    meaning: 'the largest event of a stream, and the longest line over stdio',
  },
  {
    name: 'session-scope',
    value: 'SCOPE',
    meaning: 'which calls share an upstream session: principal, call, shared',
  },
  {
    name: 'seal-key-file',
    value: 'FILE',
    meaning:
      'sealing keys, one per line; the first key encrypts, all keys decrypt; as "keygen --format raw" prints them',
  },
  {
    name: 'log-level',
    value: 'LEVEL',
    fallback: 'info',
    meaning: 'least severe level to log: trace, debug, info, warn, error, fatal',
  },
  {
    name: 'log-format',
    value: 'FORMAT',
    fallback: 'auto',
    meaning: 'auto (pretty on a terminal), json, pretty',
  },
].map(withVariable);

export const FLAGS: Readonly<Record<CommandName, readonly Flag[]>> = {
  serve: [...SERVE, { name: 'version', short: 'v', meaning: 'the version of this program' }, HELP],
  check: [
    { name: 'schema', meaning: 'print the JSON Schema of configuration files instead' },
    HELP,
  ],
  probe: [
    { name: 'stdio', meaning: 'probe the command after "--", in place of a URL' },
    ENV,
    JSON_FLAG,
    {
      name: 'header',
      value: 'NAME:VALUE',
      repeatable: true,
      meaning: 'a header for the server; repeatable',
    },
    {
      name: 'call',
      value: 'TOOL[:JSON]',
      meaning:
        'call this tool, which can have effects; if it asks, see whether its parked call can be resumed',
    },
    { ...TIMEOUT, meaning: 'timeout of the whole probe' },
    HELP,
  ],
  doctor: [
    JSON_FLAG,
    { ...TIMEOUT, meaning: 'timeout of the probe of each route' },
    ...SERVE,
    HELP,
  ],
  connect: [
    {
      name: 'url',
      value: 'URL',
      fallback: 'http://127.0.0.1:8080/mcp',
      meaning: 'the URL of a route of the gateway',
    },
    {
      name: 'name',
      value: 'NAME',
      fallback: 'gateway, or that of the route',
      meaning: 'the name of the entry',
    },
    { name: 'print', meaning: 'print the entry, and write nothing' },
    { name: 'yes', short: 'y', meaning: 'write without asking' },
    HELP,
  ],
  'mcp.json': [HELP],
  top: [
    { name: 'once', meaning: 'print once and exit, as when the output is not a terminal' },
    HELP,
  ],
  keygen: [
    {
      name: 'format',
      value: 'FORMAT',
      fallback: 'yaml',
      meaning: 'yaml (for a file), env (for a shell or container), raw (KID:KEY), json',
    },
    HELP,
  ],
  completion: [HELP],
};

/** The route of a gateway that is started without flags for it. */
export const GATEWAY_URL = 'http://127.0.0.1:8080/mcp';

/** The address of the admin listener, if no other is given. */
export const ADMIN_URL = 'http://127.0.0.1:9464';

/** Shells that the command can be completed in. */
export const SHELLS = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof SHELLS)[number];

/** Forms in which a new sealing key is printed. */
export const KEY_FORMATS = ['yaml', 'env', 'raw', 'json'] as const;
export type KeyFormat = (typeof KEY_FORMATS)[number];

/** The variable for what must not be on a command line, where every user of the machine reads it. */
export const SEAL_KEY_VARIABLE = 'MRTR_GATEWAY_SEAL_KEY';
