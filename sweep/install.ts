/** Installs published servers, each into a folder of its own that later runs find again. */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { Package } from './server.ts';

const INSTALL_MS = 600_000;

/**
 * @returns the folder with the installed commands
 * @throws Error with the end of what the installer wrote
 */
export async function install(cache: string, { name, version, ...rest }: Package): Promise<string> {
  const { registry } = rest;
  const folder = resolve(cache, `${registry}-${name.replaceAll(/[^\w.]+/g, '-')}-${version}`);
  const bin = join(folder, registry === 'npm' ? 'node_modules/.bin' : 'bin');
  const complete = join(folder, '.complete');
  if (existsSync(complete)) return bin;
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  const extra = 'with' in rest ? (rest.with ?? []) : [];
  switch (registry) {
    case 'npm':
      await writeFile(join(folder, 'package.json'), '{"private":true}');
      await run(
        'npm',
        ['install', '--no-audit', '--no-fund', `${name}@${version}`, ...extra],
        folder,
      );
      break;
    case 'pypi':
      await run('python3', ['-m', 'venv', folder], folder);
      await run(join(bin, 'pip'), ['install', '--quiet', `${name}==${version}`, ...extra], folder);
      break;
    case 'go':
      await run('go', ['install', `${name}@${version}`], folder, { GOBIN: bin });
  }
  await writeFile(complete, '');
  return bin;
}

function run(
  command: string,
  args: readonly string[],
  cwd: string,
  env: Readonly<Record<string, string>> = {},
): Promise<void> {
  return new Promise((done, fail) => {
    const child = spawn(command, args, {
      cwd,
      env: {
        ...process.env,
        PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD: '1',
        PUPPETEER_SKIP_DOWNLOAD: '1',
        ...env,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: INSTALL_MS,
    });
    let written = '';
    const keep = (text: Buffer) => (written = (written + text.toString()).slice(-2_000));
    child.stdout.on('data', keep);
    child.stderr.on('data', keep);
    child.once('error', fail);
    child.once('close', (code) =>
      code === 0 ? done() : fail(new Error(`${command} ${args.join(' ')}: ${code}\n${written}`)),
    );
  });
}
