/**
 * Makes the program as the package and the image have it: a few files in place of hundreds, which Node.js takes long to read.
 *
 *   node scripts/bundle.ts           for the package: `dist/` of this checkout. npm installs the libraries.
 *   node scripts/bundle.ts FOLDER    for the image: `dist/` with the libraries and their licenses, `bin/` and `package.json`
 */
import { existsSync } from 'node:fs';
import { cp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build, type Plugin } from 'rolldown';

const ROOT = join(import.meta.dirname, '..');
const PROGRAM = join(ROOT, 'src/main.ts');
const LICENSE = /^(?:licen[cs]e|notice)/i;

/** Makes the program with its libraries in a folder, in place of an earlier one. */
export async function bundle(folder: string): Promise<void> {
  const packages = packagesOf(await writeDist(folder));
  await writeFile(join(folder, 'dist/LICENSES.txt'), await licensesOf(packages));
  await copyCommand(folder);
}

/** Makes the program without its libraries: `dist/` in a folder, in place of an earlier one. */
export async function bundleOwn(folder: string): Promise<void> {
  const manifest = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as {
    readonly dependencies: Readonly<Record<string, string>>;
  };
  await writeDist(folder, Object.keys(manifest.dependencies));
}

/** Copies what starts the program. */
export async function copyCommand(folder: string): Promise<void> {
  await cp(join(ROOT, 'bin'), join(folder, 'bin'), { recursive: true });
  await cp(join(ROOT, 'package.json'), join(folder, 'package.json'));
}

/**
 * Writes `dist/` with the page.
 * @param outside the libraries that are not in it
 * @returns the files that are in it
 */
async function writeDist(folder: string, outside: string[] = []): Promise<string[]> {
  const modules = await writeProgram(folder, PROGRAM, outside);
  await cp(join(ROOT, 'src/ops/live/page'), join(folder, 'dist/page'), {
    recursive: true,
    filter: (path) => !path.endsWith('.json'),
  });
  return modules;
}

/**
 * Writes a program as `dist/main.js`, in place of an earlier `dist/`.
 * @param outside the libraries that are not in it
 * @returns the files that are in it
 */
export async function writeProgram(
  folder: string,
  program: string,
  outside: string[] = [],
): Promise<string[]> {
  const dist = join(folder, 'dist');
  await rm(dist, { recursive: true, force: true });
  const { output } = await build({
    input: { main: program },
    platform: 'node',
    logLevel: 'warn',
    external: outside,
    plugins: [HTTP_WITHOUT_FETCH, ASCII],
    output: { dir: dist, format: 'esm', chunkFileNames: '[name]-[hash].js' },
  });
  return output.flatMap((chunk) => (chunk.type === 'chunk' ? chunk.moduleIds : []));
}

const HTTP = '\0http';

/**
 * Takes `node:http` as it is. An `import` of it reads all that it exports, which loads the client of `fetch` as well: nothing uses it, and
 * it takes 2 MiB and a tenth of the start.
 */
const HTTP_WITHOUT_FETCH: Plugin = {
  name: 'http-without-fetch',
  resolveId: (id) => (id === 'node:http' ? HTTP : null),
  load: (id) => (id === HTTP ? "module.exports = process.getBuiltinModule('node:http');" : null),
};

/**
 * Writes other characters as escapes. With a single one of them, V8 can keep the source of a file with two bytes for each
 * character, which takes 10 MB more for the image.
 */
const ASCII: Plugin = {
  name: 'ascii',
  generateBundle: (_options, files) => {
    for (const file of Object.values(files))
      if (file.type === 'chunk') file.code = ascii(file.code);
  },
};

function ascii(code: string): string {
  return code.replaceAll(/[^\x00-\x7f]/g, (unit) => {
    return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
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
  await (folder === undefined ? bundleOwn(ROOT) : bundle(folder));
}
