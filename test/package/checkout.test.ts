/** What `bin/` starts in a checkout, where a build may have left compiled files from before the last edit. */
import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { stopAfterTest } from '../fixtures/stop-after-test.ts';

const BIN = fileURLToPath(new URL('../../bin', import.meta.url));

test('the sources run, and not what an older build left in dist', async () => {
  const folder = await folderWith({ 'src/main.ts': 'sources', 'dist/main.js': 'older build' });
  expect(await started(folder)).toBe('sources\n');
});

test('the compiled program runs where there are no sources', async () => {
  const folder = await folderWith({ 'dist/main.js': 'compiled' });
  expect(await started(folder)).toBe('compiled\n');
});

// A Node.js that says it is an old one.
const OLD = `data:text/javascript,Object.defineProperty(process,'versions',{value:{node:'18.1.0'}})`;

test.each([
  ['src/main.ts', 'Run npm ci, then npm start'],
  ['dist/main.js', 'Install a newer Node.js'],
])('an old Node.js says what to do where there is %s', async (path, wayOut) => {
  const folder = await folderWith({ [path]: 'started' });
  const run = promisify(execFile)(process.execPath, ['--import', OLD, 'bin/mrtr-gateway.js'], {
    cwd: folder,
  });
  await expect(run).rejects.toMatchObject({
    code: 64,
    stdout: '',
    stderr: `mrtr-gateway: requires Node.js 22.19 or newer (found 18.1.0). ${wayOut}\n`,
  });
});

test('a folder that cannot be written starts without a compile cache', async () => {
  const folder = await folderWith({ 'dist/main.js': 'compiled', '.compile-cache': 'in the way' });
  expect(await started(folder)).toBe('compiled\n');
});

/** @param programs by path, what each prints */
async function folderWith(programs: Readonly<Record<string, string>>): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'mrtr-gateway-checkout-'));
  stopAfterTest(() => rm(folder, { recursive: true }));
  await cp(BIN, join(folder, 'bin'), { recursive: true });
  await writeFile(join(folder, 'package.json'), '{"type":"module"}');
  for (const [path, text] of Object.entries(programs)) {
    await mkdir(join(folder, path, '..'), { recursive: true });
    await writeFile(join(folder, path), `console.log('${text}');`);
  }
  return folder;
}

async function started(folder: string): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, ['bin/mrtr-gateway.js'], {
    cwd: folder,
    env: { ...process.env, NODE_COMPILE_CACHE: undefined },
  });
  return stdout;
}
