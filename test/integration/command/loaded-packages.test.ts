/** Which packages a command loads: the time to start is the time to load them. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';

/** The sources, since the program of other tests is a bundle. */
const CHECKOUT = join(import.meta.dirname, '../../..');
const COMMAND = join(CHECKOUT, 'bin/mrtr-gateway.js');

/** Prints the packages when the process exits. A worker has a channel, and prints nothing. */
const hook = `data:text/javascript,${encodeURIComponent(`
  import { registerHooks } from 'node:module';
  const packages = new Set();
  registerHooks({
    load(url, context, next) {
      const name = /.*\\/node_modules\\/((?:@[^/]+\\/)?[^/]+)/.exec(url)?.[1];
      if (name !== undefined) packages.add(name);
      return next(url, context);
    },
  });
  const isWorker = process.send !== undefined;
  process.on('exit', () => isWorker || process.stdout.write(JSON.stringify([...packages].sort())));
`)}`;

function start(words: readonly string[]) {
  const args = ['--import', hook, COMMAND, ...words];
  return spawn(process.execPath, args, { cwd: CHECKOUT, stdio: ['ignore', 'pipe', 'pipe'] });
}

test.each<[string[], string[]]>([
  [['--version'], ['secure-json-parse']],
  [['--help'], ['secure-json-parse']],
  [['keygen'], ['secure-json-parse']],
  [
    ['check', 'config/example.yaml'],
    ['secure-json-parse', 'yaml', 'zod'],
  ],
])('%j loads no server and no client', async (words, packages) => {
  const { stdout } = start(words);
  const printed = await text(stdout);
  expect(JSON.parse(printed.slice(printed.lastIndexOf('[')))).toEqual(packages);
});

test('the primary of several workers loads nothing that speaks to servers', async () => {
  const addresses = ['--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0'];
  const child = start(['--upstream', 'http://127.0.0.1:9/mcp', '--workers', '2', ...addresses]);
  const printed = text(child.stdout);
  let log = '';
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
    if (log.includes('gateway.listening')) return;
    log += chunk;
    if (log.includes('gateway.listening')) child.kill('SIGTERM');
  });
  await once(child, 'exit');
  const packages = JSON.parse(await printed) as string[];
  expect(packages).toContain('fastify');
  const needless = ['undici', '@fastify/http-proxy', 'eventsource-parser', 'ioredis', 'jose'];
  expect(packages.filter((name) => needless.includes(name))).toEqual([]);
});

/** Starts a gateway, ends it when `use` has resolved, and returns what it loaded. */
async function loadedBy(use: (origin: string) => Promise<void>): Promise<string[]> {
  const addresses = ['--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0'];
  const child = start(['--upstream', 'http://127.0.0.1:9/mcp', ...addresses]);
  const printed = text(child.stdout);
  const exited = once(child, 'exit');
  const origin = await new Promise<string>((resolve) => {
    let log = '';
    child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
      log += chunk;
      const line = log.split('\n').find((one) => one.includes('gateway.listening'));
      const found = /http:\/\/127\.0\.0\.1:\d+/.exec(line ?? '');
      if (found !== null) resolve(found[0]);
    });
  });
  try {
    await use(origin);
  } finally {
    child.kill('SIGTERM');
    await exited;
  }
  return JSON.parse(await printed) as string[];
}

test('a gateway that has passed nothing through has not loaded the forwarding library', async () => {
  const packages = await loadedBy(async (origin) => {
    const headers = { 'content-type': 'application/json', 'mcp-protocol-version': '2026-07-28' };
    const { status } = await fetch(`${origin}/mcp`, { method: 'POST', headers, body: '{' });
    expect(status).toBe(400);
  });
  expect(packages).toContain('fastify');
  const needless = [
    '@fastify/http-proxy',
    '@fastify/reply-from',
    'ajv',
    '@fastify/ajv-compiler',
    'ioredis',
  ];
  expect(packages.filter((name) => needless.includes(name))).toEqual([]);
});

test('the first request that is passed through has it loaded', async () => {
  const packages = await loadedBy(async (origin) => {
    const { status } = await fetch(`${origin}/other`);
    expect(status).toBe(502);
  });
  expect(packages).toContain('@fastify/http-proxy');
});
