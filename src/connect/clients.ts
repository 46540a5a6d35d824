/** Clients whose configuration files are known: where these are, and how an entry of a server over HTTP is written there. */
import { posix, win32 } from 'node:path';
import type { Environment } from '../lib/program.ts';
import type { ClientProgramName } from '../model/client-programs.ts';
import type { JsonObject } from '../protocol/json.ts';

/** Whose files these are. */
export interface Home {
  readonly platform: NodeJS.Platform;
  readonly folder: string;
  readonly env: Environment;
}

interface FileFormat {
  /** The file that the client reads for this user. */
  readonly file: (home: Home) => string;
  /** Whether its folder is the client's own, so that it tells that the client is there. */
  readonly hasFolder: boolean;
  /** The map that has the servers. */
  readonly servers: string;
  readonly entry: (url: string) => JsonObject;
  /** What its user must know besides. */
  readonly note?: string;
}

const http = (url: string) => ({ type: 'http', url });

/** mcp-remote refuses a URL without TLS elsewhere: it takes `[::1]` for another machine, too. */
function allowingHttp(url: string): string[] {
  return /^(?:https:|http:\/\/(?:localhost|127\.0\.0\.1)[:/])/.test(url) ? [] : ['--allow-http'];
}

const CONNECTABLE = {
  'claude-code': {
    file: (home) => inFolder(home, 'CLAUDE_CONFIG_DIR', [], '.claude.json'),
    hasFolder: false,
    servers: 'mcpServers',
    entry: http,
    note: 'End Claude Code first: it writes this file itself.',
  },
  vscode: {
    file: (home) => inApplications(home, 'Code', 'User', 'mcp.json'),
    hasFolder: true,
    servers: 'servers',
    entry: http,
  },
  cursor: {
    file: (home) => inHome(home, '.cursor', 'mcp.json'),
    hasFolder: true,
    servers: 'mcpServers',
    entry: (url) => ({ url }),
  },
  codex: {
    file: (home) => inFolder(home, 'CODEX_HOME', ['.codex'], 'config.toml'),
    hasFolder: true,
    servers: 'mcp_servers',
    entry: (url) => ({ url }),
  },
  copilot: {
    file: (home) => inHome(home, '.copilot', 'mcp-config.json'),
    hasFolder: true,
    servers: 'mcpServers',
    entry: (url) => ({ ...http(url), tools: ['*'] }),
  },
  gemini: {
    file: (home) => inHome(home, '.gemini', 'settings.json'),
    hasFolder: true,
    servers: 'mcpServers',
    entry: (url) => ({ httpUrl: url }),
  },
  qwen: {
    file: (home) => inHome(home, '.qwen', 'settings.json'),
    hasFolder: true,
    servers: 'mcpServers',
    entry: (url) => ({ httpUrl: url }),
  },
  opencode: {
    file: (home) => inFolder(home, 'XDG_CONFIG_HOME', ['.config'], 'opencode', 'opencode.json'),
    hasFolder: true,
    servers: 'mcp',
    entry: (url) => ({ type: 'remote', url, enabled: true }),
  },
  'claude-desktop': {
    file: (home) => inApplications(home, 'Claude', 'claude_desktop_config.json'),
    hasFolder: true,
    servers: 'mcpServers',
    entry: (url) => ({ command: 'npx', args: ['-y', 'mcp-remote', url, ...allowingHttp(url)] }),
    note: 'Its file takes no server over HTTP: mcp-remote stands between, and speaks an older revision. A connector needs a public URL.',
  },
} as const satisfies Partial<Readonly<Record<ClientProgramName, FileFormat>>>;

export type ConnectableName = keyof typeof CONNECTABLE;
export const CONNECTABLE_NAMES = Object.keys(CONNECTABLE) as readonly ConnectableName[];

export function formatOf(name: ConnectableName): FileFormat {
  return CONNECTABLE[name];
}

function inHome({ platform, folder }: Home, ...parts: readonly string[]): string {
  return (platform === 'win32' ? win32 : posix).join(folder, ...parts);
}

/** @param variable names the folder in place of `usual` in the home folder */
function inFolder(
  home: Home,
  variable: string,
  usual: readonly string[],
  ...parts: readonly string[]
): string {
  const set = home.env[variable];
  return set ? inHome({ ...home, folder: set }, ...parts) : inHome(home, ...usual, ...parts);
}

/** Where programs with a window keep their settings. */
function inApplications(home: Home, ...parts: readonly string[]): string {
  if (home.platform === 'darwin') return inHome(home, 'Library', 'Application Support', ...parts);
  const isWindows = home.platform === 'win32';
  const usual = isWindows ? ['AppData', 'Roaming'] : ['.config'];
  return inFolder(home, isWindows ? 'APPDATA' : 'XDG_CONFIG_HOME', usual, ...parts);
}
