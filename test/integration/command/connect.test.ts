/** `mrtr-gateway connect` in a home folder of its own. */
import {
  chmod,
  chown,
  mkdir,
  mkdtemp,
  readFile,
  readdir,
  readlink,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { run } from '../../../src/cli/run.ts';
import { CONNECTABLE_NAMES, formatOf } from '../../../src/connect/clients.ts';
import { neverServe } from '../../fixtures/probing.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';
import { testHost } from '../../unit/cli/test-host.ts';

const URL = 'http://127.0.0.1:8080/mcp';

/** A home folder with files. */
async function home(files: Readonly<Record<string, string>> = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'mrtr-home-'));
  stopAfterTest(() => rm(folder, { recursive: true }));
  const path = (name: string) => join(folder, name);
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(path(name)), { recursive: true });
    await writeFile(path(name), text);
  }
  /** @param typed what is typed at the question; without it there is no terminal */
  const connect = async (words: readonly string[], typed?: string) => {
    const host = testHost({ env: { HOME: folder } });
    const stdin = {
      isTTY: typed !== undefined,
      on: (event: string, listener: (keys: unknown) => void) => {
        if (event === 'data') setImmediate(() => listener(typed));
      },
    };
    const code = await run(['connect', ...words], { ...host, stdin, on: host.on }, neverServe);
    return { code, out: host.stdout.text, err: host.stderr.text };
  };
  return { path, connect, read: (name: string) => readFile(path(name), 'utf8') };
}

test('without a client, those that are on this machine are listed with their files', async () => {
  const { connect, path } = await home({ '.claude.json': '{}', '.codex/config.toml': '' });
  const { code, out } = await connect([]);
  expect(code).toBe(0);
  expect(out).toMatch(new RegExp(`^claude-code +Claude Code: ${path('.claude.json')}$`, 'm'));
  expect(out).toMatch(new RegExp(`^codex +Codex CLI: ${path('.codex/config.toml')}$`, 'm'));
  expect(out).toMatch(/^Not found on this machine: vscode, cursor, /m);
});

describe('a change is shown', () => {
  const files = {
    '.cursor/mcp.json': '{\n  "mcpServers": {\n    "a": { "url": "http://b/" }\n  }\n}\n',
  };
  const added = `{
  "mcpServers": {
    "a": { "url": "http://b/" },
    "gateway": {
      "url": "${URL}"
    }
  }
}
`;

  test.each([
    ['and written once it is confirmed', 'y\n', added],
    ['and not written if it is not', 'n\n', files['.cursor/mcp.json']],
    ['and not written for any other word', 'sure\n', files['.cursor/mcp.json']],
  ])('%s', async (_what, typed, text) => {
    const { connect, read } = await home(files);
    const { code, out } = await connect(['cursor'], typed);
    expect(code).toBe(0);
    expect(out).toContain('+     "gateway": {');
    expect(out).toContain('Write this? [y/N]');
    expect(await read('.cursor/mcp.json')).toBe(text);
  });

  test('and not written without a terminal, unless --yes is given', async () => {
    const { connect, read } = await home(files);
    expect(await connect(['cursor'])).toMatchObject({
      code: 64,
      err: expect.stringContaining('give --yes'),
    });
    expect(await read('.cursor/mcp.json')).toBe(files['.cursor/mcp.json']);
    expect(await connect(['cursor', '--yes'])).toMatchObject({ code: 0 });
    expect(await read('.cursor/mcp.json')).toBe(added);
    expect((await connect(['cursor', '--yes'])).out).toContain('has this entry already');
  });
});

test('the file keeps its mode and its link, and nothing is left beside it', async () => {
  const { connect, path, read } = await home({ 'dotfiles/mcp.json': '{}' });
  await mkdir(path('.cursor'));
  await chmod(path('dotfiles/mcp.json'), 0o640);
  await symlink(path('dotfiles/mcp.json'), path('.cursor/mcp.json'));
  expect(await connect(['cursor', '--yes'])).toMatchObject({ code: 0 });
  expect(JSON.parse(await read('dotfiles/mcp.json'))).toEqual({
    mcpServers: { gateway: { url: URL } },
  });
  expect((await stat(path('dotfiles/mcp.json'))).mode & 0o777).toBe(0o640);
  expect(await readdir(path('dotfiles'))).toEqual(['mcp.json']);
});

test('an entry of the same name is shown as replaced, without its secrets', async () => {
  const old = { mcpServers: { gateway: { url: URL, headers: { 'X-Key': 'connect-secret' } } } };
  const { connect, read } = await home({ '.cursor/mcp.json': JSON.stringify(old, null, 2) });
  const { out } = await connect(['cursor', '--yes']);
  expect(out).toContain('an entry of this name is replaced');
  expect(out).toMatch(/^- .*"X-Key": "\*\*\*"$/m);
  expect(out).not.toContain('connect-secret');
  expect(await read('.cursor/mcp.json')).not.toContain('connect-secret');
});

test('the entry is shown for a file of one long line, and nothing else of the line', async () => {
  const others = { a: { url: 'http://b/', headers: { 'X-Key': 'x'.repeat(300) } } };
  const { connect } = await home({ '.cursor/mcp.json': JSON.stringify({ mcpServers: others }) });
  const { out } = await connect(['cursor', '--yes']);
  expect(out).toMatch(/^\+ {5}"gateway": \{\n\+ {7}"url": "http:\/\/127\.0\.0\.1:8080\/mcp"$/m);
  expect(out).not.toContain('X-Key');
});

test('a switch and an entry in TOML that are there already are said, and are no problem', async () => {
  const { connect, read } = await home({ '.codex/config.toml': 'model = "x"\n' });
  expect(await connect(['codex', '--yes'])).toMatchObject({ code: 0 });
  const text = await read('.codex/config.toml');
  expect(await connect(['codex', '--yes'])).toMatchObject({
    code: 0,
    out: expect.stringContaining('has this entry already'),
  });
  expect(await read('.codex/config.toml')).toBe(text);
});

test.each([
  ['JSON with comments', 'cursor', '.cursor/mcp.json', '{\n  // mine\n  "mcpServers": {}\n}\n'],
  ['a TOML table that is there', 'codex', '.codex/config.toml', '[features]\nweb = true\n'],
  ['a file with a name for comments', 'opencode', '.config/opencode/opencode.jsonc', '{ /* */ }'],
])('%s is not changed, and the entry is printed', async (_what, client, file, text) => {
  const { connect, read } = await home({ [file]: text });
  const { code, out } = await connect([client, '--yes']);
  expect(code).toBe(1);
  expect(out).toContain('Put this into it:');
  expect(out).toContain(URL);
  expect(await read(file)).toBe(text);
});

test('a folder in place of the file is said, and nothing is written', async () => {
  const { connect, path } = await home();
  await mkdir(path('.cursor/mcp.json'), { recursive: true });
  expect(await connect(['cursor', '--yes'])).toMatchObject({
    code: 1,
    out: expect.stringContaining('it cannot be changed (it is not a regular file)'),
  });
});

test('a file that nests deeper than a program can read is left to its user', async () => {
  const nested = `{"a":${'['.repeat(100_000)}${']'.repeat(100_000)},"mcpServers":{}}`;
  const { connect, read } = await home({ '.cursor/mcp.json': nested });
  expect(await connect(['cursor', '--yes'])).toMatchObject({
    code: 1,
    out: expect.stringContaining('Put this into it:'),
  });
  expect(await read('.cursor/mcp.json')).toBe(nested);
});

test('a file that is read-only is not replaced', async () => {
  const { connect, path, read } = await home({ '.cursor/mcp.json': '{}' });
  await chmod(path('.cursor/mcp.json'), 0o444);
  expect(await connect(['cursor', '--yes'])).toMatchObject({
    code: 1,
    out: expect.stringContaining('it cannot be changed (it is read-only)'),
  });
  expect(await read('.cursor/mcp.json')).toBe('{}');
});

test('a link whose file is missing stays a link', async () => {
  const { connect, path } = await home({ '.cursor/other.json': '{}' });
  await symlink(path('dotfiles/mcp.json'), path('.cursor/mcp.json'));
  expect(await connect(['cursor', '--yes'])).toMatchObject({
    code: 1,
    out: expect.stringContaining('it is a link to a file that is missing'),
  });
  expect(await readlink(path('.cursor/mcp.json'))).toBe(path('dotfiles/mcp.json'));
});

test.runIf(process.getuid?.() === 0)('root leaves the file of a user to that user', async () => {
  const { connect, path } = await home({ '.cursor/mcp.json': '{}' });
  await chown(path('.cursor/mcp.json'), 12_345, 23_456);
  expect(await connect(['cursor', '--yes'])).toMatchObject({ code: 0 });
  expect(await stat(path('.cursor/mcp.json'))).toMatchObject({ uid: 12_345, gid: 23_456 });
});

test('of several that write the same file at once, each entry that is said to be written is there', async () => {
  const { connect, read } = await home({ '.cursor/mcp.json': '{}' });
  const names = ['a', 'b', 'c', 'd', 'e', 'f'];
  const results = await Promise.all(
    names.map((name) => connect(['cursor', '--yes', '--name', name])),
  );
  const written = names.filter((_, at) => results[at]?.code === 0);
  expect(written).not.toEqual([]);
  const { mcpServers } = JSON.parse(await read('.cursor/mcp.json')) as { mcpServers: object };
  expect(Object.keys(mcpServers).toSorted()).toEqual(written);
});

test('what an interrupted write left is named, and is in the way of another one', async () => {
  const { connect, path } = await home({
    '.cursor/mcp.json': '{}',
    '.cursor/mcp.json.mrtr-gateway.tmp': '{',
  });
  expect(await connect(['cursor', '--yes'])).toMatchObject({
    code: 1,
    err: expect.stringContaining(`then remove ${path('.cursor/mcp.json.mrtr-gateway.tmp')}`),
  });
});

test('--print prints the entry and the switch, and writes nothing', async () => {
  const { connect, path } = await home();
  const { code, out } = await connect([
    'codex',
    '--print',
    '--url',
    'http://127.0.0.1:9/github/mcp',
  ]);
  expect(code).toBe(0);
  expect(out).toBe(
    '[mcp_servers.github]\nurl = "http://127.0.0.1:9/github/mcp"\n\n[features]\nmcp_2026_07_28 = true\n' +
      '# Codex CLI speaks 2026-07-28 with the switch that is added.\n',
  );
  await expect(stat(path('.codex'))).rejects.toMatchObject({ code: 'ENOENT' });
});

describe('each client has its file', () => {
  const env = { APPDATA: 'C:\\Users\\ada\\AppData\\Roaming' };

  test.each([
    ['linux', '/home/ada', 'vscode', '/home/ada/.config/Code/User/mcp.json'],
    ['darwin', '/Users/ada', 'vscode', '/Users/ada/Library/Application Support/Code/User/mcp.json'],
    ['win32', 'C:\\Users\\ada', 'vscode', 'C:\\Users\\ada\\AppData\\Roaming\\Code\\User\\mcp.json'],
    ['win32', 'C:\\Users\\ada', 'gemini', 'C:\\Users\\ada\\.gemini\\settings.json'],
  ] as const)('%s, %s: %s', (platform, folder, name, file) => {
    expect(formatOf(name).file({ platform, folder, env })).toBe(file);
  });

  test.each([
    [URL, []],
    ['https://gateway.example/mcp', []],
    ['http://gateway.example:8080/mcp', ['--allow-http']],
    ['http://[::1]:8080/mcp', ['--allow-http']],
  ])('and mcp-remote is allowed what it refuses otherwise: %s', async (url, flags) => {
    const { connect, read } = await home();
    await connect(['claude-desktop', '--yes', '--name', 'a', '--url', url]);
    const { mcpServers } = JSON.parse(await read('.config/Claude/claude_desktop_config.json')) as {
      mcpServers: unknown;
    };
    expect(mcpServers).toEqual({
      a: { command: 'npx', args: ['-y', 'mcp-remote', url, ...flags] },
    });
  });

  test.each(CONNECTABLE_NAMES)('and %s gets an entry with the URL', async (name) => {
    const { connect } = await home();
    expect((await connect([name, '--print'])).out).toContain(URL);
  });
});
