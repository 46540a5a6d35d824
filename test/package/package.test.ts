/** What a user gets from the registry: the packed files start, and carry a call, on each Node.js that we promise. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { connectModernClient } from '../fixtures/clients/official-client.ts';
import { startEverything } from '../fixtures/processes.ts';
import { allText } from '../fixtures/real-servers/tool-text.ts';
import { stopAfterTest } from '../fixtures/stop-after-test.ts';
import { installNode, installPackage, type InstalledPackage } from './installed.ts';

const run = promisify(execFile);
const NAMES_SOURCES = /^docs\/(?:rules\/|threats\.md$)/;
/** A relative link of a Markdown page, without its anchor. */
const LINK = /\]\((?![a-z]+:|#)([^)#\s]+)[^)]*\)/g;

let installed: InstalledPackage;
beforeAll(async () => {
  installed = await installPackage();
}, 400_000);
afterAll(() => installed.remove());

describe('the files of the package', () => {
  test('are the compiled program, and neither sources, source maps nor tests', () => {
    expect(installed.files).toContain('dist/main.js');
    const unwanted = /^(?:src|test|bench\/(?!README))|\.ts$|\.map$/;
    expect(installed.files.filter((file) => unwanted.test(file))).toEqual([]);
  });

  test('have no dead link among them', () => {
    const pages = installed.files.filter((file) => file.endsWith('.md'));
    expect(pages).toContain('README.md');
    const dead = pages.flatMap((page) =>
      [...readFileSync(join(installed.folder, page), 'utf8').matchAll(LINK)]
        .map(([, target = '']) => posix.join(posix.dirname(page), target))
        // The rules and the threats name tests and sources, which are not for users.
        .filter(
          (target) =>
            !(
              NAMES_SOURCES.test(page) &&
              /^(?:src\/|test\/|\.github\/|deploy\/compose\/|docker-compose\.yml$|Dockerfile$)/.test(
                target,
              )
            ),
        )
        .filter((target) => !isShipped(target))
        .map((target) => `${page} -> ${target}`),
    );
    expect(dead).toEqual([]);
  });

  function isShipped(target: string): boolean {
    const path = target.replace(/\/$/, '');
    return installed.files.some((file) => file === path || file.startsWith(`${path}/`));
  }
});

describe('the installed command with the oldest Node.js that the package asks for', () => {
  let path: string | null = null;
  let problem = '';
  beforeAll(async () => {
    const oldest = installed.manifest.engines.node.replace('>=', '');
    try {
      path = await installNode(oldest, join(installed.folder, '../../../node'));
    } catch (error) {
      problem = `Node.js ${oldest} cannot be installed: ${String(error)}`;
    }
  }, 200_000);

  test('explains itself and carries a call', async ({ skip }) => {
    if (path === null) return skip(problem);
    await explainsItself(path);
    await carriesACall(path);
  });
});

describe('the installed command with the Node.js of this project', () => {
  test('explains itself and carries a call', async () => {
    await explainsItself(dirname(process.execPath));
    await carriesACall(dirname(process.execPath));
  });
});

async function explainsItself(nodePath: string): Promise<void> {
  const options = { env: environment(nodePath) };
  const version = await run(installed.command, ['--version'], options);
  expect(version).toEqual({ stdout: `mrtr-gateway ${installed.manifest.version}\n`, stderr: '' });
  const help = await run(installed.command, ['--help'], options);
  expect(help.stdout).toMatch(/^Usage:\n {2}mrtr-gateway \[serve] --upstream URL/);
}

/** A server asks its user in the middle of a call; the official modern client answers. */
async function carriesACall(nodePath: string): Promise<void> {
  const server = await startEverything('streamableHttp');
  stopAfterTest(() => server.stop());
  const { url, admin } = await startCommand(nodePath, `${server.origin}/mcp`);
  const client = await connectModernClient(url, () => ({ name: 'Ada Lovelace' }));
  stopAfterTest(() => client.close());
  const result = await client.callTool({ name: 'trigger-elicitation-request' });
  expect(allText(result)).toContain('- Name: Ada Lovelace');
  expect(await (await fetch(`${admin}/live`)).text()).toMatch(
    /<style>:root[^]*<script[^]*showConnection\(\)/,
  );
}

/** @returns the URLs for clients and for the operator, once the command listens */
async function startCommand(
  nodePath: string,
  upstream: string,
): Promise<{ readonly url: string; readonly admin: string }> {
  const flags = ['--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0', '--log-format', 'json'];
  const child = spawn(installed.command, ['--upstream', upstream, ...flags], {
    env: environment(nodePath),
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const exited = once(child, 'exit');
  stopAfterTest(async () => {
    child.kill('SIGKILL');
    await exited;
  });
  const lines: string[] = [];
  for await (const line of createInterface(child.stderr)) {
    lines.push(line);
    const { event, url, admin } = JSON.parse(line) as Record<string, unknown>;
    if (event === 'gateway.listening') return { url: String(url), admin: String(admin) };
  }
  throw new Error(`the command ended: ${lines.join('\n')}`);
}

/** `env node` must find this Node.js, and the command no setting of the machine that runs the tests. */
function environment(nodePath: string): Record<string, string> {
  return { PATH: `${nodePath}:/usr/bin:/bin` };
}
