/**
 * Makes the program as the image has it: one folder with everything that the sources import, so that Node.js reads a dozen
 * files at the start and not a thousand.
 *
 *   node scripts/bundle.ts FOLDER
 *
 * FOLDER gets `dist/` with the licenses of what is in it, `bin/` and `package.json`.
 */
import { existsSync } from 'node:fs';
import { cp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from 'rolldown';

const ROOT = join(import.meta.dirname, '..');
const LICENSE = /^(?:licen[cs]e|notice)/i;

/** Makes the program in a folder, in place of an earlier one. */
export async function bundle(folder: string): Promise<void> {
  const dist = join(folder, 'dist');
  await rm(dist, { recursive: true, force: true });
  const { output } = await build({
    input: join(ROOT, 'src/main.ts'),
    platform: 'node',
    logLevel: 'warn',
    output: { dir: dist, format: 'esm', chunkFileNames: '[name]-[hash].js' },
  });
  const modules = output.flatMap((chunk) => (chunk.type === 'chunk' ? chunk.moduleIds : []));
  await writeFile(join(dist, 'LICENSES.txt'), await licensesOf(packagesOf(modules)));
  await cp(join(ROOT, 'src/ops/live/page'), join(dist, 'page'), {
    recursive: true,
    filter: (path) => !path.endsWith('.json'),
  });
  await cp(join(ROOT, 'bin'), join(folder, 'bin'), { recursive: true });
  await cp(join(ROOT, 'package.json'), join(folder, 'package.json'));
}

/** The folders of the packages that modules come from. */
function packagesOf(modules: readonly string[]): string[] {
  const folders = modules.flatMap(
    (id) => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(id)?.[0] ?? [],
  );
  return [...new Set(folders)].toSorted();
}

async function licensesOf(packages: readonly string[]): Promise<string> {
  const texts = await Promise.all(
    packages.map(async (folder) => {
      const manifest = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as {
        readonly name: string;
        readonly version: string;
        readonly license?: string;
      };
      const files = (await readdir(folder)).filter((file) => LICENSE.test(file));
      const found = await Promise.all(files.map((file) => readFile(join(folder, file), 'utf8')));
      const { name, version, license = 'no license named' } = manifest;
      return [`${name} ${version}: ${license}`, ...found.map((text) => text.trim())].join('\n\n');
    }),
  );
  return `${texts.join(`\n\n${'-'.repeat(80)}\n\n`)}\n`;
}

const [script = '', folder] = process.argv.slice(1);
if (existsSync(script) && import.meta.url === pathToFileURL(script).href) {
  if (folder === undefined) {
    console.error('bundle: expected the folder to write to: node scripts/bundle.ts FOLDER');
    process.exitCode = 64;
  } else {
    await bundle(folder);
  }
}
