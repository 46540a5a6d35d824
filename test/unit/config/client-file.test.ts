/** Files that people have for their clients, as configurations of the gateway. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { loadClientFile, readClientFile } from '../../../src/config/load/client-file.ts';

const folder = mkdtempSync(join(tmpdir(), 'mrtr-client-file-'));
afterAll(() => rmSync(folder, { recursive: true }));
let files = 0;

function fileWith(content: object | string, name = `${(files += 1)}.json`): string {
  const file = join(folder, name);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content, null, 2));
  return file;
}

const routesOf = (mcpServers: object) => readClientFile(fileWith({ mcpServers })).data.routes;

describe('a server becomes a route', () => {
  test('over stdio, with arguments, variables and a folder', () => {
    const server = { command: 'npx', args: ['-y', 'x'], env: { LEVEL: '1' }, cwd: '/srv' };
    const { data, variables } = readClientFile(fileWith({ mcpServers: { files: server } }));
    expect(data.routes).toEqual([
      {
        id: 'files',
        path: '/files/mcp',
        upstream: { command: 'npx', args: ['-y', 'x'], env: { LEVEL: '${LEVEL}' }, cwd: '/srv' },
      },
    ]);
    expect([...variables]).toEqual([['LEVEL', ['mcpServers.files.env.LEVEL']]]);
  });

  test.each([
    [{ type: 'http', url: 'http://a/mcp' }, { url: 'http://a/mcp' }],
    [{ httpUrl: 'http://a/mcp' }, { url: 'http://a/mcp' }],
    [{ serverUrl: 'http://a/mcp' }, { url: 'http://a/mcp' }],
    [
      { type: 'sse', url: 'http://a/sse' },
      { url: 'http://a/sse', transport: 'http-sse' },
    ],
  ])('over HTTP: %j', (server, upstream) => {
    expect(routesOf({ a: server })).toEqual([{ id: 'a', path: '/a/mcp', upstream }]);
  });

  test('with a name that fits into a path', () => {
    const server = { url: 'http://a/' };
    const routes = routesOf({ 'my server': server, 'my/server': server, '..': server });
    expect(routes.map(({ path }) => path)).toEqual([
      '/my-server/mcp',
      '/my-server-2/mcp',
      '/-/mcp',
    ]);
  });

  test('with a name that no other server has, whatever their names are', () => {
    const server = { url: 'http://a/' };
    const long = 'x'.repeat(70);
    const names = ['a b', 'a-b', 'a-b-2', long, `${long}y`];
    const routes = routesOf(Object.fromEntries(names.map((name) => [name, server])));
    const ids = routes.map(({ id }) => id);
    expect(ids.slice(0, 3)).toEqual(['a-b', 'a-b-2', 'a-b-2-2']);
    expect(new Set(ids).size).toBe(5);
    expect(routes.map(({ path }) => path)).toEqual(ids.map((id) => `/${String(id)}/mcp`));
  });

  test('unless it is switched off, which is said', () => {
    const file = fileWith({
      mcpServers: { a: { url: 'http://a/' }, b: { command: 'b', disabled: true } },
    });
    const { data, notes } = readClientFile(file);
    expect(data.routes).toHaveLength(1);
    expect(notes).toEqual(['mcpServers.b is switched off, and left out']);
  });
});

describe('what can be a secret is a variable', () => {
  const servers = {
    git: {
      command: 'git-server',
      args: ['--api-key', 'canary-1', '--token=canary-2', '--verbose', 'plain'],
      env: { TOKEN: 'canary-3' },
    },
    api: { url: 'http://a/mcp?key=canary-4', headers: { 'X-Key': 'canary-5' } },
    other: { command: 'x', env: { TOKEN: 'canary-6' } },
    same: { command: 'y', env: { TOKEN: 'canary-3' } },
  };

  test('in what is printed', () => {
    const file = fileWith({ mcpServers: servers });
    const { data, variables } = readClientFile(file);
    expect(JSON.stringify([data, [...variables]])).not.toContain('canary');
    expect([...variables.keys()]).toEqual([
      'GIT_API_KEY',
      'GIT_TOKEN',
      'TOKEN',
      'API_QUERY',
      'API_X_KEY',
      'OTHER_TOKEN',
    ]);
    expect(variables.get('TOKEN')).toEqual([
      'mcpServers.git.env.TOKEN',
      'mcpServers.same.env.TOKEN',
    ]);
  });

  test('and has its value in the configuration that is served', () => {
    const { config } = loadClientFile(fileWith({ mcpServers: servers }), { TOKEN: 'of the shell' });
    expect(config.routes.map(({ upstream }) => upstream.process ?? upstream)).toMatchObject([
      {
        args: ['--api-key', 'canary-1', '--token=canary-2', '--verbose', 'plain'],
        env: { TOKEN: 'canary-3' },
      },
      { url: new URL('http://a/mcp?key=canary-4'), headers: { 'x-key': 'canary-5' } },
      { env: { TOKEN: 'canary-6' } },
      { env: { TOKEN: 'canary-3' } },
    ]);
  });

  test('in an argument, and what stands before it is not', () => {
    const args = [
      ['mcp-remote', 'https://a/mcp?api_key=canary'],
      ['--header', 'Authorization: Bearer canary', '--header', 'X-B:${AUTH}', '-H', 'X-C: canary'],
      ['--header=X-D: canary', '-e', 'GH_TOKEN=canary', '--env=OTHER=canary', '-e', 'PASSED_ON'],
      ['--pat', 'canary', '--db-pass=canary', '--path', '/srv', 'C:\\x', 'a:b', '-y', 'image'],
    ].flat();
    const file = fileWith({ mcpServers: { a: { command: 'x', args } } });
    const [route] = readClientFile(file).data.routes;
    expect((route?.['upstream'] as { args: unknown }).args).toEqual(
      [
        ['mcp-remote', 'https://a/mcp?${A_QUERY}'],
        ['--header', 'Authorization: ${A_AUTHORIZATION}', '--header', 'X-B:${AUTH}'],
        ['-H', 'X-C: ${A_X_C}', '--header=X-D: ${A_X_D}', '-e', 'GH_TOKEN=${GH_TOKEN}'],
        ['--env=OTHER=${OTHER}', '-e', 'PASSED_ON', '--pat', '${A_PAT}', '--db-pass=${A_DB_PASS}'],
        ['--path', '/srv', 'C:\\x', 'a:b', '-y', 'image'],
      ].flat(),
    );
    const { config } = loadClientFile(file, { AUTH: 'b' });
    expect(config.routes[0]?.upstream.process?.args).toEqual(
      args.map((each) => each.replace('${AUTH}', 'b')),
    );
  });

  test('also around references, and in the URL of a database', () => {
    const env = { DB: 'postgres://u:canary-7@${HOST_NAME}/db', AUTH: 'Bearer ${TOKEN}' };
    const server = { command: 'x', args: ['postgres://u:canary-8@h/db'], env };
    const file = fileWith({ mcpServers: { a: server } });
    const { data } = readClientFile(file);
    expect(data.routes[0]?.['upstream']).toEqual({
      command: 'x',
      args: ['${A_URL}'],
      env: { DB: '${DB}${HOST_NAME}${A_DB}', AUTH: 'Bearer ${TOKEN}' },
    });
    const { config } = loadClientFile(file, { HOST_NAME: 'h', TOKEN: 't' });
    expect(config.routes[0]?.upstream.process).toMatchObject({
      args: ['postgres://u:canary-8@h/db'],
      env: { DB: 'postgres://u:canary-7@h/db', AUTH: 'Bearer t' },
    });
  });

  test('of another name if the file refers to one of that name', () => {
    const { config } = loadClientFile(
      fileWith({
        mcpServers: {
          a: { command: 'a', env: { KEY: 'own' } },
          b: { command: 'b', env: { X: '${KEY}' } },
        },
      }),
      { KEY: 'of the shell' },
    );
    expect(config.routes.map(({ upstream }) => upstream.process?.env)).toEqual([
      { KEY: 'own' },
      { X: 'of the shell' },
    ]);
  });
});

describe('references of clients', () => {
  test('to variables are those of the gateway', () => {
    const headers = { A: 'Bearer ${env:TOKEN}', B: '${TOKEN:-none}' };
    const file = fileWith({ servers: { a: { type: 'http', url: 'http://a/', headers } } });
    const [route] = readClientFile(file).data.routes;
    expect(route?.['upstream']).toMatchObject({
      headers: { A: 'Bearer ${TOKEN}', B: '${TOKEN:-none}' },
    });
    expect(() => loadClientFile(file, {})).toThrow(
      /\.json:\d+:\d+ servers\.a\.headers\.A: expected the environment variable TOKEN/,
    );
  });

  test('to the folder of the project are that folder', () => {
    const server = { command: 'x', args: ['${workspaceFolder}/src'] };
    const file = fileWith({ servers: { a: server } }, 'project/.vscode/mcp.json');
    expect(readClientFile(file).data.routes[0]?.['upstream']).toMatchObject({
      args: [join(folder, 'project/src')],
    });
  });

  test('to what its client asks for are variables, and that is said', () => {
    const file = fileWith({
      inputs: [{ type: 'promptString', id: 'api-key', password: true }],
      servers: { a: { command: 'x', env: { KEY: '${input:api-key}' }, envFile: '.env' } },
    });
    const { data, notes } = readClientFile(file);
    expect(data.routes[0]?.['upstream']).toMatchObject({ env: { KEY: '${API_KEY}' } });
    expect(notes).toEqual([
      'servers.a.envFile is not translated',
      'servers.a.env.KEY ${input:api-key} is asked by its client: set API_KEY',
    ]);
  });

  test('to anything else stay, and that is said', () => {
    const file = fileWith({ servers: { a: { command: '${command:x.y}' } } });
    const { data, notes } = readClientFile(file);
    expect(data.routes[0]?.['upstream']).toEqual({ command: '$${command:x.y}' });
    expect(notes).toEqual([
      'servers.a.command ${command:x.y} is known to its client only: write what it stands for',
    ]);
  });
});

test('comments and commas of VS Code are no problem, and places stay', () => {
  const file = fileWith(
    '{\n  // mine: "a"\n  "servers": { /* x */ "a": { "url": "ftp://x//y" }, },\n}',
  );
  expect(() => readClientFile(file)).toThrow(
    `${file}:3:38 servers.a.url: expected an http or https URL, got "ftp://x//y"`,
  );
});

test.each([
  ['{}', /:1:1 expected a map mcpServers or servers$/],
  ['{ "mcpServers": [] }', /expected a map mcpServers or servers$/],
  ['{ "mcpServers": {} }', /:1:\d+ mcpServers: expected at least one server that is not/],
  [
    '{ "mcpServers": { "a": { "command": "x", "disabled": true } } }',
    /mcpServers: expected at least one server that is not switched off$/,
  ],
  ['{ "mcpServers": { "a": {} } }', /:1:\d+ mcpServers\.a: expected a map with command or url$/],
  ['{ "mcpServers": { "a": { "command": 1 } } }', /mcpServers\.a\.command: expected a text$/],
  ['{ "mcpServers": { "a": { "command": "x", "args": "y" } } }', /a\.args: expected a list/],
  [
    '{ "mcpServers": { "a": { "command": "x", "env": { "B": {} } } } }',
    /a\.env\.B: expected a text$/,
  ],
  ['{ "mcpServers": ', /:1:\d+ not valid YAML/],
])('a wrong file names file, line and field: %s', (text, problem) => {
  expect(() => readClientFile(fileWith(text))).toThrow(problem);
});

test('no problem shows a value that can be a secret', () => {
  const servers = {
    a: { url: 'http://a/', headers: { 'bad name': 'canary-7', B: 'canary\u0000-8' } },
  };
  expect(() => loadClientFile(fileWith({ servers }), {})).toThrow(
    /^(?!.*canary).*servers\.a\.headers/s,
  );
});
