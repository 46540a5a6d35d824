/** Servers that take the roots of their client for the folders that they may use, with `upstream.roots: caller`. */
import { mkdtemp, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, test } from 'vitest';
import { testGateway } from '../fixtures/gateways/test-gateway.ts';
import type { StdioServer } from '../fixtures/gateways/gateway.ts';
import { EVERYTHING_STDIO, FILESYSTEM } from '../fixtures/processes.ts';
import { connectAskedClient, type Answers } from '../fixtures/real-servers/asked-client.ts';
import { startBridgedFilesystem } from '../fixtures/real-servers/supergateway.ts';
import { stopAfterTest } from '../fixtures/stop-after-test.ts';

/** A folder with a note in it. */
async function folderWith(note: string) {
  const path = await realpath(await mkdtemp(join(tmpdir(), 'mrtr-roots-')));
  stopAfterTest(() => rm(path, { recursive: true, force: true }));
  await writeFile(join(path, 'note.txt'), note);
  return { path, note: join(path, 'note.txt'), root: { uri: pathToFileURL(path).href } };
}

async function connected(url: string, answers: Answers) {
  const { client, questions, close } = await connectAskedClient(url, answers);
  stopAfterTest(close);
  const call = async (name: string, args: Record<string, unknown> = {}) => {
    const { content } = await client.callTool({ name, arguments: args });
    return (content as { text?: string }[]).map(({ text = '' }) => text).join('\n');
  };
  return { call, questions: () => questions.map(({ method }) => method) };
}

const stdio = (args: readonly string[]): StdioServer => ({
  command: process.execPath,
  args: [FILESYSTEM, ...args],
  roots: 'caller',
});

const SERVERS = {
  'over stdio': async (folder: string) => testGateway(stdio([folder])),
  'over Streamable HTTP behind a bridge': async (folder: string) => {
    const server = await startBridgedFilesystem(folder);
    stopAfterTest(() => server.stop());
    return testGateway(`${server.origin}/mcp`, { upstream: { roots: 'caller' } });
  },
};

// Rule roots-4: With `upstream.roots: caller` the first call of a session asks the client for roots, and tells the
// server that they have changed.
describe.each(Object.entries(SERVERS))('server-filesystem %s', (_name, start) => {
  test('works in the folders of its caller from the first call on', async () => {
    const [operators, callers] = [await folderWith('kept'), await folderWith('mine')];
    const { url } = await start(operators.path);
    const { call, questions } = await connected(url, { roots: [callers.root] });
    expect(await call('read_text_file', { path: callers.note })).toBe('mine');
    expect(questions()).toEqual(['roots/list']);
    expect(await call('list_allowed_directories')).toContain(callers.path);
    expect(await call('read_text_file', { path: operators.note })).toMatch(/denied/);
    expect(questions()).toEqual(['roots/list']);
  });

  test('keeps the folders of the operator for a caller that has no roots', async () => {
    const operators = await folderWith('kept');
    const { url } = await start(operators.path);
    const { call, questions } = await connected(url, { roots: [] });
    expect(await call('read_text_file', { path: operators.note })).toBe('kept');
    expect(questions()).toEqual(['roots/list']);
  });
});

// Rule roots-4.
test('callers with different folders do not meet', async () => {
  const [mine, yours] = [await folderWith('mine'), await folderWith('yours')];
  const { url } = await testGateway(stdio([tmpdir()]));
  const [one, other] = await Promise.all([
    connected(url, { roots: [mine.root] }),
    connected(url, { roots: [yours.root] }),
  ]);
  const reads = [mine, yours].map(({ note: path }) => ({ path }));
  const [first, second] = await Promise.all([
    Promise.all(reads.map((args) => one.call('read_text_file', args))),
    Promise.all(reads.map((args) => other.call('read_text_file', args))),
  ]);
  expect(first).toEqual(['mine', expect.stringMatching(/denied/)]);
  expect(second).toEqual([expect.stringMatching(/denied/), 'yours']);
});

// Rule roots-4.
test('server-everything shows the roots of its caller, as to a direct client', async () => {
  const { url } = await testGateway({ ...EVERYTHING_STDIO, roots: 'caller' });
  const roots = [{ uri: 'file:///home/ada', name: 'home' }];
  const { call, questions } = await connected(url, { roots });
  const shown = await call('get-roots-list');
  expect(shown).toContain('file:///home/ada');
  expect(shown).toContain('home');
  expect(questions()).toEqual(['roots/list']);
});
