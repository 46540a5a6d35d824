/** The servers of the sweep: published, legacy or dual-era, and usable without an account. */
import type { Call, PublishedServer, Start } from './server.ts';

type HttpTransport = Exclude<Start['transport'], 'stdio'>;

const npm = (name: string, version: string, extra: readonly string[] = []) => ({
  registry: 'npm' as const,
  name,
  version,
  with: extra,
});
const pypi = (name: string, version: string, extra: readonly string[] = []) => ({
  registry: 'pypi' as const,
  name,
  version,
  with: extra,
});
const go = (name: string, version: string) => ({ registry: 'go' as const, name, version });

const stdio = (...command: [string, ...string[]]): Start => ({ transport: 'stdio', command });
const http = (
  transport: HttpTransport,
  path: string,
  command: [string, ...string[]],
  env: Readonly<Record<string, string>> = {},
): Start => ({ transport, path, command, env });

const EVERYTHING = npm('@modelcontextprotocol/server-everything', '2026.8.31');
const EVERYTHING_CALLS: readonly Call[] = [
  { tool: 'echo', arguments: { message: 'hello' } },
  { tool: 'get-sum', arguments: { a: 2, b: 3 } },
  { tool: 'get-structured-content', arguments: { location: 'Chicago' } },
  { tool: 'trigger-elicitation-request' },
  { tool: 'trigger-sampling-request', arguments: { prompt: 'Say something', maxTokens: 10 } },
];
const GO_SDK = 'github.com/modelcontextprotocol/go-sdk/examples/server';
const MCP_GO = 'github.com/mark3labs/mcp-go/examples';
const ENTITIES: readonly Call[] = [
  {
    tool: 'create_entities',
    arguments: { entities: [{ name: 'Ada', entityType: 'person', observations: ['writes'] }] },
  },
  { tool: 'read_graph' },
];
/** Examples of apps with a user interface; they serve Streamable HTTP without sessions. */
const app = (name: string, calls: readonly Call[]): PublishedServer => ({
  name: `server-${name}`,
  package: npm(`@modelcontextprotocol/server-${name}`, '2.0.3'),
  language: 'TypeScript',
  start: http('streamable-http', '/mcp', [`{bin}/mcp-${name}-server`], { PORT: '{port}' }),
  calls,
});

export const SERVERS: readonly PublishedServer[] = [
  {
    name: 'server-everything',
    package: EVERYTHING,
    language: 'TypeScript',
    start: http('streamable-http', '/mcp', ['{bin}/mcp-server-everything', 'streamableHttp'], {
      PORT: '{port}',
    }),
    calls: EVERYTHING_CALLS,
    rootsAtStart: true,
  },
  {
    name: 'server-everything',
    package: EVERYTHING,
    language: 'TypeScript',
    start: http('http-sse', '/sse', ['{bin}/mcp-server-everything', 'sse'], { PORT: '{port}' }),
    calls: EVERYTHING_CALLS,
    rootsAtStart: true,
  },
  {
    name: 'server-everything',
    package: EVERYTHING,
    language: 'TypeScript',
    start: stdio('{bin}/mcp-server-everything', 'stdio'),
    calls: EVERYTHING_CALLS,
    rootsAtStart: true,
  },
  {
    name: 'server-memory',
    package: npm('@modelcontextprotocol/server-memory', '2026.8.31'),
    language: 'TypeScript',
    start: {
      ...stdio('{bin}/mcp-server-memory'),
      // Otherwise all runs share a file of the package.
      env: { MEMORY_FILE_PATH: '{dir}/memory.jsonl' },
    },
    calls: ENTITIES,
  },
  {
    name: 'server-filesystem',
    package: npm('@modelcontextprotocol/server-filesystem', '2026.8.31'),
    language: 'TypeScript',
    start: stdio('{bin}/mcp-server-filesystem', '{dir}'),
    calls: [
      { tool: 'read_text_file', arguments: { path: '{dir}/hello.txt' } },
      { tool: 'list_allowed_directories' },
    ],
    rootsAtStart: true,
  },
  {
    name: 'server-sequential-thinking',
    package: npm('@modelcontextprotocol/server-sequential-thinking', '2026.8.31'),
    language: 'TypeScript',
    start: stdio('{bin}/mcp-server-sequential-thinking'),
    calls: [
      {
        tool: 'sequentialthinking',
        arguments: { thought: 'One.', nextThoughtNeeded: true, thoughtNumber: 1, totalThoughts: 2 },
      },
      {
        tool: 'sequentialthinking',
        arguments: {
          thought: 'Two.',
          nextThoughtNeeded: false,
          thoughtNumber: 2,
          totalThoughts: 2,
        },
      },
    ],
  },
  {
    name: 'mongodb-mcp-server',
    package: npm('mongodb-mcp-server', '1.14.0'),
    language: 'TypeScript',
    start: http('streamable-http', '/mcp', [
      '{bin}/mongodb-mcp-server',
      '--transport',
      'http',
      '--httpPort',
      '{port}',
      '--telemetry',
      'disabled',
    ]),
    calls: [
      { tool: 'list-knowledge-sources' },
      { tool: 'drop-database', arguments: { database: 'prod' } },
    ],
  },
  {
    name: 'mongodb-mcp-server',
    package: npm('mongodb-mcp-server', '3.0.4'),
    language: 'TypeScript',
    start: http('streamable-http', '/mcp', [
      '{bin}/mongodb-mcp-server',
      '--transport',
      'http',
      '--httpPort',
      '{port}',
      '--telemetry',
      'disabled',
    ]),
    calls: [{ tool: 'drop-database', arguments: { database: 'prod' } }],
  },
  {
    name: '@playwright/mcp',
    package: npm('@playwright/mcp', '0.0.83'),
    language: 'TypeScript',
    start: http('streamable-http', '/mcp', [
      '{bin}/playwright-mcp',
      '--port',
      '{port}',
      '--headless',
      '--no-sandbox',
      '--isolated',
      '--executable-path',
      '/usr/bin/chromium',
    ]),
    calls: [
      {
        tool: 'browser_navigate',
        arguments: { url: 'data:text/html,<title>T</title><h1>Hello</h1>' },
        varies: /page-[\dTZ-]+/,
      },
      { tool: 'browser_snapshot' },
    ],
  },
  {
    name: '@executeautomation/playwright-mcp-server',
    package: npm('@executeautomation/playwright-mcp-server', '1.0.12'),
    language: 'TypeScript',
    start: http('http-sse', '/sse', ['{bin}/playwright-mcp-server', '--port', '{port}']),
    calls: [
      {
        tool: 'start_codegen_session',
        arguments: { options: { outputPath: '{dir}' } },
        varies: /codegen_\w+|[\da-f-]{36}|\d{13}/,
      },
    ],
  },
  {
    name: '@antv/mcp-server-chart',
    package: npm('@antv/mcp-server-chart', '0.9.10'),
    language: 'TypeScript',
    start: http('streamable-http', '/mcp', [
      '{bin}/mcp-server-chart',
      '-t',
      'streamable',
      '-p',
      '{port}',
    ]),
    calls: [{ tool: 'generate_pie_chart', arguments: { data: [{ category: 'a', value: 1 }] } }],
  },
  {
    name: '@upstash/context7-mcp',
    package: npm('@upstash/context7-mcp', '4.1.1'),
    language: 'TypeScript',
    start: http('streamable-http', '/mcp', [
      '{bin}/context7-mcp',
      '--transport',
      'http',
      '--port',
      '{port}',
    ]),
    calls: [{ tool: 'resolve-library-id', arguments: { query: 'react', libraryName: 'react' } }],
  },
  {
    name: '@bytebase/dbhub',
    package: npm('@bytebase/dbhub', '1.4.0'),
    language: 'TypeScript',
    start: http('streamable-http', '/mcp', [
      '{bin}/dbhub',
      '--demo',
      '--transport',
      'http',
      '--port',
      '{port}',
    ]),
    calls: [{ tool: 'execute_sql', arguments: { sql: 'select count(*) from employee' } }],
  },
  {
    name: '@bytebase/dbhub',
    package: npm('@bytebase/dbhub', '1.4.0'),
    language: 'TypeScript',
    start: stdio('{bin}/dbhub', '--demo'),
    calls: [{ tool: 'execute_sql', arguments: { sql: 'select count(*) from employee' } }],
  },
  {
    name: '@cyanheads/git-mcp-server',
    package: npm('@cyanheads/git-mcp-server', '2.15.3'),
    language: 'TypeScript',
    start: stdio('{bin}/git-mcp-server'),
    calls: [
      { tool: 'git_init', arguments: { path: '{dir}' } },
      { tool: 'git_status', arguments: { path: '{dir}' } },
    ],
  },
  {
    name: '@cyanheads/git-mcp-server',
    package: npm('@cyanheads/git-mcp-server', '2.15.3'),
    language: 'TypeScript',
    start: http('streamable-http', '/mcp', ['{bin}/git-mcp-server'], {
      MCP_TRANSPORT_TYPE: 'http',
      MCP_HTTP_PORT: '{port}',
      MCP_HTTP_HOST: '127.0.0.1',
    }),
    calls: [
      { tool: 'git_init', arguments: { path: '{dir}' } },
      { tool: 'git_status', arguments: { path: '{dir}' } },
    ],
  },
  {
    name: '@eslint/mcp',
    package: npm('@eslint/mcp', '0.3.13'),
    language: 'TypeScript',
    start: stdio('{bin}/mcp'),
    calls: [{ tool: 'lint-files', arguments: { filePaths: ['{dir}/good.js'] } }],
  },
  {
    name: '@negokaz/excel-mcp-server',
    package: npm('@negokaz/excel-mcp-server', '0.12.0'),
    language: 'Go',
    start: stdio('{bin}/excel-mcp-server'),
    calls: [{ tool: 'excel_describe_sheets', arguments: { fileAbsolutePath: '{dir}/none.xlsx' } }],
  },
  app('budget-allocator', [{ tool: 'get-budget-data' }]),
  app('cohort-heatmap', [{ tool: 'get-cohort-data', varies: /[\d.]+/ }]),
  app('scenario-modeler', [{ tool: 'get-scenario-data' }]),
  app('system-monitor', [{ tool: 'get-system-info', varies: /[\d.]+/ }]),
  app('threejs', [{ tool: 'learn_threejs' }]),
  {
    name: 'mcp-server-time',
    package: pypi('mcp-server-time', '2026.10.19'),
    language: 'Python',
    start: stdio('{bin}/mcp-server-time'),
    calls: [
      {
        tool: 'convert_time',
        arguments: {
          source_timezone: 'Europe/Berlin',
          time: '12:00',
          target_timezone: 'Asia/Tokyo',
        },
        varies: /\d{4}-\d\d-\d\d/,
      },
    ],
  },
  {
    name: 'mcp-server-git',
    package: pypi('mcp-server-git', '2026.10.19'),
    language: 'Python',
    start: stdio('{bin}/mcp-server-git'),
    calls: [{ tool: 'git_status', arguments: { repo_path: '{dir}' } }],
  },
  {
    name: 'mcp-server-calculator',
    package: pypi('mcp-server-calculator', '0.2.1'),
    language: 'Python',
    start: stdio('{bin}/mcp-server-calculator'),
    calls: [{ tool: 'calculate', arguments: { expression: '6*7' } }],
  },
  {
    name: 'excel-mcp-server',
    package: pypi('excel-mcp-server', '2.2.2'),
    language: 'Python',
    start: http('streamable-http', '/mcp', [
      '{bin}/excel-mcp-server',
      'streamable-http',
      '--port',
      '{port}',
    ]),
    calls: [{ tool: 'list_workbooks' }],
  },
  {
    name: 'excel-mcp-server',
    package: pypi('excel-mcp-server', '2.2.2'),
    language: 'Python',
    start: stdio('{bin}/excel-mcp-server', 'stdio'),
    calls: [
      { tool: 'create_workbook', arguments: { path: 'new.xlsx' } },
      { tool: 'list_workbooks' },
    ],
  },
  {
    name: 'duckduckgo-mcp-server',
    package: pypi('duckduckgo-mcp-server', '0.7.0'),
    language: 'Python',
    start: http('streamable-http', '/mcp', [
      '{bin}/duckduckgo-mcp-server',
      '--transport',
      'streamable-http',
      '--port',
      '{port}',
    ]),
    calls: [{ tool: 'expand_link', arguments: { token: 'ref://1' } }],
  },
  {
    name: 'markitdown-mcp',
    package: pypi('markitdown-mcp', '0.0.1a7'),
    language: 'Python',
    start: http('streamable-http', '/mcp', ['{bin}/markitdown-mcp', '--http', '--port', '{port}']),
    calls: [{ tool: 'convert_to_markdown', arguments: { uri: 'data:text/plain,hello' } }],
  },
  {
    name: 'markitdown-mcp',
    package: pypi('markitdown-mcp', '0.0.1a7'),
    language: 'Python',
    start: stdio('{bin}/markitdown-mcp'),
    calls: [{ tool: 'convert_to_markdown', arguments: { uri: 'data:text/plain,hello' } }],
  },
  {
    name: 'go-sdk everything',
    package: go(`${GO_SDK}/everything`, 'v1.8.0'),
    language: 'Go',
    start: http('streamable-http', '/', ['{bin}/everything', '-http', '127.0.0.1:{port}']),
    calls: [
      { tool: 'greet', arguments: { name: 'Ada' } },
      { tool: 'sample' },
      { tool: 'elicit (form)' },
      { tool: 'roots' },
    ],
    fill: { random: 'word' },
  },
  {
    name: 'go-sdk everything',
    package: go(`${GO_SDK}/everything`, 'v1.8.0'),
    language: 'Go',
    start: stdio('{bin}/everything'),
    calls: [
      { tool: 'greet', arguments: { name: 'Ada' } },
      { tool: 'sample' },
      { tool: 'elicit (form)' },
      { tool: 'roots' },
    ],
    fill: { random: 'word' },
  },
  {
    name: 'go-sdk memory',
    package: go(`${GO_SDK}/memory`, 'v1.8.0'),
    language: 'Go',
    start: http('streamable-http', '/', ['{bin}/memory', '-http', '127.0.0.1:{port}']),
    calls: ENTITIES,
  },
  {
    name: 'mcp-go everything',
    package: go(`${MCP_GO}/everything`, 'v1.2.1'),
    language: 'Go',
    start: stdio('{bin}/everything'),
    calls: [
      { tool: 'echo', arguments: { message: 'hello' } },
      { tool: 'add', arguments: { a: 1, b: 2 } },
    ],
  },
  {
    name: 'mcp-server-kubernetes',
    package: npm('mcp-server-kubernetes', '4.1.7'),
    language: 'TypeScript',
    start: http('http-sse', '/sse', ['{bin}/mcp-server-kubernetes'], {
      PORT: '{port}',
      ENABLE_UNSAFE_SSE_TRANSPORT: '1',
    }),
    calls: [{ tool: 'ping' }, { tool: 'kubectl_get', arguments: { resourceType: 'pods' } }],
    remark: 'It can have one session only: for several callers it needs `sessions.max: 1`.',
  },
  {
    name: 'mcp-server-kubernetes',
    package: npm('mcp-server-kubernetes', '4.1.7'),
    language: 'TypeScript',
    start: stdio('{bin}/mcp-server-kubernetes'),
    calls: [{ tool: 'ping' }, { tool: 'kubectl_get', arguments: { resourceType: 'pods' } }],
  },
  {
    name: 'firecrawl-mcp',
    package: npm('firecrawl-mcp', '3.22.2'),
    language: 'TypeScript',
    start: http('streamable-http', '/mcp', ['{bin}/firecrawl-mcp'], {
      PORT: '{port}',
      HTTP_STREAMABLE_SERVER: 'true',
      FIRECRAWL_API_URL: 'http://127.0.0.1:9',
    }),
    calls: [{ tool: 'firecrawl_scrape', arguments: { url: 'https://example.com' } }],
    remark: 'It gives no session ids.',
  },
  {
    name: 'supergateway (server-everything)',
    package: npm('supergateway', '4.0.0', [`${EVERYTHING.name}@${EVERYTHING.version}`]),
    language: 'TypeScript',
    start: http('streamable-http', '/mcp', [
      '{bin}/supergateway',
      ...['--stdio', '{bin}/mcp-server-everything stdio', '--port', '{port}'],
      ...['--outputTransport', 'streamableHttp', '--stateful'],
    ]),
    calls: EVERYTHING_CALLS,
    rootsAtStart: true,
    remark: 'A bridge from stdio, with a process for each session.',
  },
  {
    name: 'supergateway (server-everything)',
    package: npm('supergateway', '4.0.0', [`${EVERYTHING.name}@${EVERYTHING.version}`]),
    language: 'TypeScript',
    start: http('http-sse', '/sse', [
      '{bin}/supergateway',
      ...['--stdio', '{bin}/mcp-server-everything stdio', '--port', '{port}'],
    ]),
    calls: EVERYTHING_CALLS,
    rootsAtStart: true,
    remark: 'A bridge from stdio that broadcasts: one process for all.',
  },
  {
    name: 'mcp-proxy (mcp-server-calculator)',
    package: pypi('mcp-proxy', '0.13.0', ['mcp-server-calculator==0.2.1']),
    language: 'Python',
    start: http('streamable-http', '/mcp', [
      '{bin}/mcp-proxy',
      ...['--port', '{port}', '{bin}/mcp-server-calculator'],
    ]),
    calls: [{ tool: 'calculate', arguments: { expression: '2 * 21' } }],
    remark: 'A bridge from stdio that drops the capabilities of clients: its server cannot ask.',
  },
  {
    name: 'mcp-go elicitation',
    package: go(`${MCP_GO}/elicitation`, 'v1.2.1'),
    language: 'Go',
    start: stdio('{bin}/elicitation'),
    calls: [{ tool: 'create_project' }, { tool: 'process_data', arguments: { data: 'some' } }],
  },
  {
    name: 'mcp-go sampling',
    package: go(`${MCP_GO}/sampling_server`, 'v1.2.1'),
    language: 'Go',
    start: stdio('{bin}/sampling_server'),
    calls: [
      { tool: 'greet', arguments: { name: 'Ada' } },
      { tool: 'ask_llm', arguments: { question: 'Why?' } },
    ],
  },
  {
    name: 'mcp-go roots',
    package: go(`${MCP_GO}/roots_server`, 'v1.2.1'),
    language: 'Go',
    start: stdio('{bin}/roots_server'),
    calls: [{ tool: 'roots' }],
  },
];
