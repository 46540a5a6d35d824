/** The clients, each at one exact version. */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Package } from '../server.ts';
import type { PublishedClient } from './client.ts';
import { TEXT } from './model.ts';

const AT_TERMINAL = 'a form in its terminal';
const PROMPT = 'Call the tool echo, then the tool ask.';
const pypi = (name: string, version: string, ...extra: readonly string[]) =>
  ({ registry: 'pypi', name, version, ...(extra.length > 0 && { with: extra }) }) as const;
const npm = (name: string, version: string, ...extra: readonly string[]) =>
  ({ registry: 'npm', name, version, ...(extra.length > 0 && { with: extra }) }) as const;

export const CLIENTS: readonly PublishedClient[] = [
  {
    name: 'Claude Code',
    package: npm('@anthropic-ai/claude-code', '2.1.332'),
    answers: 'a hook',
    start: ({ bin, home, url, model }) => ({
      command: [
        join(bin, 'claude'),
        ...['--print', PROMPT, '--settings', join(home, 'settings.json')],
        ...['--mcp-config', join(home, 'servers.json'), '--strict-mcp-config'],
        ...['--allowedTools', 'mcp__gate__echo', 'mcp__gate__ask'],
      ],
      env: {
        ANTHROPIC_BASE_URL: model,
        ANTHROPIC_API_KEY: 'of-no-use',
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
        ENABLE_TOOL_SEARCH: 'false',
      },
      files: {
        'servers.json': JSON.stringify({ mcpServers: { gate: { type: 'http', url } } }),
        'settings.json': JSON.stringify({
          hooks: {
            Elicitation: [
              {
                matcher: '',
                hooks: [{ type: 'command', command: `cat '${join(home, 'answer.json')}'` }],
              },
            ],
          },
        }),
        'answer.json': JSON.stringify({
          hookSpecificOutput: {
            hookEventName: 'Elicitation',
            action: 'accept',
            content: { name: 'Ada' },
          },
        }),
      },
    }),
  },
  {
    name: 'GitHub Copilot CLI',
    package: npm('@github/copilot', '1.0.102'),
    answers: AT_TERMINAL,
    start: ({ bin, home, url, model }) => ({
      command: inTerminal(
        [
          ['What is your name?', 'Ada'],
          ['Ada', '\r'],
          ['Done.', '\u0003'],
          ['again', '\u0003'],
        ],
        join(bin, 'copilot'),
        ...['--interactive', PROMPT, '--allow-all-tools', '--disable-builtin-mcps'],
        ...[
          '--no-color',
          '--screen-reader',
          '--additional-mcp-config',
          `@${join(home, 'servers.json')}`,
        ],
      ),
      env: {
        COPILOT_OFFLINE: 'true',
        COPILOT_PROVIDER_BASE_URL: `${model}/v1`,
        COPILOT_MODEL: 'scripted',
        COPILOT_AUTO_UPDATE: 'false',
        COPILOT_ALLOW_ALL: 'true',
      },
      files: {
        'servers.json': JSON.stringify({
          mcpServers: { gate: { type: 'http', url, tools: ['*'] } },
        }),
      },
    }),
  },
  {
    name: 'opencode',
    package: npm('opencode-ai', '1.18.33'),
    start: ({ bin, home, url, model }) => ({
      command: [join(bin, 'opencode'), 'run', '--model', 'scripted/scripted', PROMPT],
      env: { OPENCODE_CONFIG: join(home, 'opencode.json'), OPENCODE_DISABLE_AUTOUPDATE: '1' },
      files: {
        'opencode.json': JSON.stringify({
          provider: {
            scripted: {
              npm: '@ai-sdk/openai-compatible',
              options: { baseURL: `${model}/v1`, apiKey: 'of-no-use' },
              models: { scripted: {} },
            },
          },
          mcp: { gate: { type: 'remote', url, oauth: false } },
          permission: { '*': 'allow' },
        }),
      },
    }),
  },
  codex(),
  codex('mcp_2026_07_28 = true'),
  {
    name: 'Gemini CLI',
    package: npm('@google/gemini-cli', '0.61.0'),
    start: ({ bin, url, model }) => ({
      command: [
        join(bin, 'gemini'),
        '--skip-trust',
        '--yolo',
        '--model',
        'gemini-2.5-flash',
        '--prompt',
        PROMPT,
      ],
      env: {
        GEMINI_API_KEY: 'of-no-use',
        GOOGLE_GEMINI_BASE_URL: model,
        GEMINI_CLI_TRUST_WORKSPACE: 'true',
      },
      files: {
        '.gemini/settings.json': JSON.stringify({
          mcpServers: { gate: { httpUrl: url, trust: true } },
          security: { auth: { selectedType: 'gemini-api-key' } },
          privacy: { usageStatisticsEnabled: false },
          general: { disableAutoUpdate: true },
        }),
      },
    }),
  },
  {
    name: 'Qwen Code',
    package: npm('@qwen-code/qwen-code', '0.24.4'),
    start: ({ bin, url, model }) => ({
      command: [join(bin, 'qwen'), '--yolo', '--auth-type', 'openai', '--prompt', PROMPT],
      env: {
        OPENAI_API_KEY: 'of-no-use',
        OPENAI_BASE_URL: `${model}/v1`,
        OPENAI_MODEL: 'scripted',
      },
      files: {
        '.qwen/settings.json': JSON.stringify({
          mcpServers: { gate: { httpUrl: url, trust: true } },
          privacy: { usageStatisticsEnabled: false },
          general: { disableAutoUpdate: true },
          tools: { toolSearch: { enabled: false } },
        }),
      },
    }),
  },
  {
    name: 'MCP Inspector',
    setting: '`--cli`',
    package: npm('@modelcontextprotocol/inspector', '2.12.0'),
    start: ({ bin, url }) => {
      const call = (...args: readonly string[]) => [
        ...[join(bin, 'mcp-inspector'), '--cli', url, '--transport', 'http', '--method', ...args],
      ];
      return {
        command: inTurn(
          call('tools/list'),
          call('tools/call', '--tool-name', 'echo', '--tool-arg', `text=${TEXT}`),
          call('tools/call', '--tool-name', 'ask'),
        ),
      };
    },
  },
  {
    name: 'MCP Inspector',
    setting: '`mcpdo connect --era auto`',
    package: npm('@modelcontextprotocol/inspector', '2.12.0'),
    answers: 'a second command',
    start: ({ bin, home, url }) => ({
      command: [
        'sh',
        programPath('mcpdo.sh'),
        join(bin, 'mcpdo'),
        join(home, 'servers.json'),
        TEXT,
      ],
      files: {
        'servers.json': JSON.stringify({ mcpServers: { gate: { type: 'streamable-http', url } } }),
      },
    }),
  },
  {
    name: 'mcporter',
    package: npm('mcporter', '0.12.3'),
    start: ({ bin, home, url }) => ({
      command: inTurn(
        [join(bin, 'mcporter'), 'list', 'gate'],
        [join(bin, 'mcporter'), 'call', 'gate.echo', `text=${TEXT}`],
        [join(bin, 'mcporter'), 'call', 'gate.ask'],
      ),
      env: { MCPORTER_CONFIG: join(home, 'mcporter.json') },
      files: { 'mcporter.json': JSON.stringify({ mcpServers: { gate: { url } } }) },
    }),
  },
  {
    name: 'mcp-remote',
    package: npm('mcp-remote', '0.15.1'),
    answers: 'the client in front of it',
    start: ({ bin, url }) => ({
      command: node('bridge.js', TEXT, join(bin, 'mcp-remote'), url, '--transport', 'http-only'),
    }),
  },
  {
    name: 'supergateway',
    package: npm('supergateway', '4.0.0'),
    start: ({ bin, url }) => ({
      command: node('bridge.js', TEXT, join(bin, 'supergateway'), '--streamableHttp', url),
    }),
  },
  library('Vercel AI SDK', npm('@ai-sdk/mcp', '2.0.99'), 'ai-sdk.js', true),
  library('Mastra', npm('@mastra/mcp', '2.0.0'), 'mastra.js', true),
  library('LangChain, JavaScript', npm('@langchain/mcp-adapters', '1.1.4'), 'langchain.js'),
  library(
    'LangChain, Python',
    pypi('langchain-mcp-adapters', '0.3.2'),
    'langchain_adapters.py',
    true,
  ),
  library('OpenAI Agents SDK, JavaScript', npm('@openai/agents', '0.20.0'), 'openai-agents.js'),
  library('OpenAI Agents SDK, Python', pypi('openai-agents', '0.24.0'), 'openai_agents.py'),
  library(
    'Pydantic AI',
    pypi('pydantic-ai-slim', '2.68.0', 'pydantic-ai-slim[mcp]==2.68.0'),
    'pydantic_ai_toolset.py',
    true,
  ),
  library('Strands Agents', pypi('strands-agents', '1.62.0'), 'strands_client.py', true),
  library('FastMCP', pypi('fastmcp', '4.2.3'), 'fastmcp_client.py', true),
  library('Python SDK', pypi('mcp', '2.3.0'), 'python_sdk.py', true),
];

/** Clients that this cannot start, and why. */
export const DOCUMENTED: readonly { readonly name: string; readonly why: string }[] = [
  { name: 'Goose', why: 'it is published as a binary on GitHub, and in no registry' },
  { name: 'crush', why: 'its npm package fetches a binary from GitHub when it is installed' },
  { name: 'mcp-use', why: 'its `client` installs a package that the registry does not have' },
  { name: 'VS Code, Cursor, Zed, JetBrains', why: 'they are desktop programs' },
  { name: 'Claude and ChatGPT, on the web', why: 'they connect from the internet' },
];

/** Over a terminal: `codex exec` declines whatever it is asked. */
function codex(feature = ''): PublishedClient {
  return {
    name: 'Codex CLI',
    ...(feature !== '' && { setting: `\`${feature}\`` }),
    package: npm('@openai/codex', '0.171.0'),
    answers: AT_TERMINAL,
    start: ({ bin, home, url, model }) => ({
      command: inTerminal(
        [
          ['What is your name?', 'Ada'],
          ['Ada', '\r'],
          ['Done.', '\u0003'],
        ],
        join(bin, 'codex'),
        PROMPT,
      ),
      env: { SCRIPTED_KEY: 'of-no-use' },
      files: {
        '.codex/config.toml': `
model = "scripted"
model_provider = "scripted"
approval_policy = "on-request"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[tui]
animations = false
[features]
${feature}
[projects."${home}"]
trust_level = "trusted"
[model_providers.scripted]
name = "scripted"
base_url = "${model}/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
[mcp_servers.gate]
url = "${url}"
required = true
default_tools_approval_mode = "approve"
`,
      },
    }),
  };
}

/** A package that is used by a program of ours. */
function library(
  name: string,
  from: Package,
  program: string,
  hasHandler = false,
): PublishedClient {
  return {
    name,
    package: from,
    ...(from.registry === 'npm' && { program }),
    ...(hasHandler && { answers: 'a handler' }),
    start: ({ bin, url }) => ({
      command:
        from.registry === 'npm'
          ? [process.execPath, join(bin, '../..', program.replace('.js', '.mjs')), url, TEXT]
          : [join(bin, 'python'), programPath(program), url, TEXT],
    }),
  };
}

/** A command in a terminal, in which `keys` are typed when a text is shown. */
function inTerminal(
  steps: readonly (readonly [shown: string, keys: string])[],
  ...command: readonly string[]
): readonly [string, ...string[]] {
  return ['python3', programPath('terminal.py'), JSON.stringify(steps), ...command];
}

/** Programs of this checkout, which use its packages. */
function node(program: string, ...args: readonly string[]): readonly [string, ...string[]] {
  return [process.execPath, programPath(program), ...args];
}

function programPath(name: string): string {
  return fileURLToPath(new URL(`programs/${name}`, import.meta.url));
}

/** Commands one after the other, whatever the one before ended with. */
function inTurn(...commands: readonly (readonly string[])[]): readonly [string, ...string[]] {
  const quoted = (word: string) => `'${word.replaceAll("'", "'\\''")}'`;
  return ['sh', '-c', commands.map((words) => words.map(quoted).join(' ')).join('; ')];
}
