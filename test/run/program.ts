/**
 * Makes the program that tests start as processes: bundled from the sources of this run, as the image has it. It takes half
 * of the processor time of the sources to start, which tests do some hundred times. Those of `test/package` run the
 * sources and the package.
 */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { bundle } from '../../scripts/bundle.ts';

const PROGRAMS = join(import.meta.dirname, '../../results/programs');
/** Where `fixtures/gateways/command.ts` finds it. */
const VARIABLE = 'TEST_PROGRAM';
const DAY_MS = 86_400_000;
const WARM_MS = 30_000;

export default async function setup(project: TestProject): Promise<void> {
  await make();
  project.onTestsRerun(make);
}

async function make(): Promise<void> {
  await mkdir(PROGRAMS, { recursive: true });
  await removeOld();
  const made = await mkdtemp(join(PROGRAMS, 'new-'));
  await bundle(made);
  // Equal sources have the same path, which Node.js has compiled files for, and runs at the same time share it.
  const folder = join(PROGRAMS, await digestOf(join(made, 'dist')));
  const isNew = await rename(made, folder).then(
    () => true,
    () => false,
  );
  if (isNew) await compile(join(folder, 'bin/mrtr-gateway.js'));
  else await rm(made, { recursive: true });
  process.env[VARIABLE] = folder;
}

async function removeOld(): Promise<void> {
  for (const name of await readdir(PROGRAMS)) {
    const folder = join(PROGRAMS, name);
    const { mtimeMs } = await stat(folder);
    if (Date.now() - mtimeMs > DAY_MS) await rm(folder, { recursive: true, force: true });
  }
}

async function digestOf(folder: string): Promise<string> {
  const hash = createHash('sha256');
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    hash.update(entry.name).update(await readFile(join(entry.parentPath, entry.name)));
  }
  return hash.digest('hex').slice(0, 16);
}

/** Starts it once and stops it in order, so that Node.js keeps the compiled files. A gateway that a test kills does not. */
async function compile(command: string): Promise<void> {
  // Nothing listens there. The gateway starts nevertheless, and tries again until it is told to stop.
  const args = [
    '--upstream',
    'http://127.0.0.1:9/mcp',
    '--listen',
    '127.0.0.1:0',
    '--admin',
    'off',
  ];
  const gateway = spawn(process.execPath, [command, ...args, '--log-format', 'json'], {
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: WARM_MS,
  });
  for (const stream of [gateway.stdout, gateway.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      if (text.includes('gateway.listening')) gateway.kill('SIGTERM');
    });
  }
  await once(gateway, 'exit');
}
