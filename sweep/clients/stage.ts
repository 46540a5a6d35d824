/** The three servers that each client meets, each behind a gateway of its own with its defaults. */
import { copyFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Package } from '../server.ts';
import { freePort, Program, startGateway } from '../processes.ts';

/** Servers by their column in the table. */
export const SERVERS = ['legacy over HTTP', 'legacy over stdio', 'modern only'] as const;
export type ServerKind = (typeof SERVERS)[number];

/** What the server of 2026-07-28 is made of. */
export const MODERN_SDK: Package = {
  registry: 'npm',
  name: '@modelcontextprotocol/server',
  version: '2.4.0',
  with: ['@modelcontextprotocol/node@2.1.2'],
};

const pathOf = (name: string) => fileURLToPath(new URL(`servers/${name}.js`, import.meta.url));

export interface Stage extends AsyncDisposable {
  /** The URL of the gateway in front of each. */
  readonly urls: Readonly<Record<ServerKind, URL>>;
}

/** @param sdk the folder where `MODERN_SDK` is installed @param cwd a folder for what they write */
export async function startStage(sdk: string, cwd: string): Promise<Stage> {
  await using stack = new AsyncDisposableStack();
  const server = async (program: string) => {
    const port = await freePort();
    const running = new Program([process.execPath, program, String(port)], {
      env: process.env,
      cwd,
    });
    stack.use(running);
    await running.listens(port);
    return `http://127.0.0.1:${port}/mcp`;
  };
  const gateway = async (...args: readonly string[]) => {
    const port = await freePort();
    stack.use(await startGateway(args, port, cwd));
    return new URL(`http://127.0.0.1:${port}/mcp`);
  };
  // A module finds its packages from the folder that it is in.
  for (const name of ['modern', 'tools']) await copyFile(pathOf(name), join(sdk, `${name}.mjs`));
  const urls = {
    'legacy over HTTP': await gateway('--upstream', await server(pathOf('legacy'))),
    'legacy over stdio': await gateway('--stdio', '--', process.execPath, pathOf('legacy')),
    'modern only': await gateway('--upstream', await server(join(sdk, 'modern.mjs'))),
  };
  const started = stack.move();
  return { urls, [Symbol.asyncDispose]: () => started.disposeAsync() };
}
