/** The package as a user has it: packed, and installed into an empty folder. */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const NPM_LIMIT_MS = 180_000;
const run = promisify(execFile);

export interface InstalledPackage {
  /** Paths of the files in the package. */
  readonly files: readonly string[];
  /** The folder that the package was unpacked to. */
  readonly folder: string;
  /** What npm made of `bin`, to be started as a user starts it. */
  readonly command: string;
  readonly manifest: { readonly version: string; readonly engines: { readonly node: string } };
  remove(): Promise<void>;
}

/**
 * Packs this checkout, which runs `prepack`, and installs the tarball with its dependencies.
 * @throws Error with npm's output when npm fails, or takes more than three minutes
 */
export async function installPackage(): Promise<InstalledPackage> {
  const scratch = await mkdtemp(join(tmpdir(), 'mrtr-gateway-package-'));
  const remove = () => rm(scratch, { recursive: true, force: true });
  try {
    const home = await emptyProject(join(scratch, 'user'));
    await npm(ROOT, 'pack', '--pack-destination', scratch);
    const { version } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as {
      version: string;
    };
    const tarball = join(scratch, `mrtr-gateway-${version}.tgz`);
    await npm(home, 'install', '--prefer-offline', tarball);
    const folder = join(home, 'node_modules/mrtr-gateway');
    const manifest = JSON.parse(
      await readFile(join(folder, 'package.json'), 'utf8'),
    ) as InstalledPackage['manifest'];
    const { stdout: listing } = await run('tar', ['-tzf', tarball]);
    return {
      files: listing
        .trim()
        .split('\n')
        .map((path) => path.replace(/^package\//, '')),
      folder,
      command: join(home, 'node_modules/.bin/mrtr-gateway'),
      manifest,
      remove,
    };
  } catch (cause) {
    await remove();
    throw cause;
  }
}

/**
 * Installs a Node.js of its own into a folder.
 * @returns the folder of the binary, for `PATH`
 * @throws Error when the registry does not have it for this platform, or cannot be reached
 */
export async function installNode(version: string, into: string): Promise<string> {
  const name = `node-${process.platform}-${process.arch}`;
  const home = await emptyProject(into);
  await npm(home, 'install', '--prefer-offline', `${name}@${version}`);
  return join(home, 'node_modules', name, 'bin');
}

async function emptyProject(folder: string): Promise<string> {
  await mkdir(folder);
  await writeFile(join(folder, 'package.json'), '{"private":true}');
  return folder;
}

/** npm hands its own settings to what it starts: this npm must not take those of the one that runs the tests. */
async function npm(folder: string, ...words: readonly string[]): Promise<void> {
  const inherited = Object.entries(process.env).filter(
    ([name]) => !/^npm_(?:package|lifecycle|command|config_(?:local|global)_prefix)/.test(name),
  );
  await run('npm', ['--no-audit', '--no-fund', '--prefix', folder, ...words], {
    cwd: folder,
    env: Object.fromEntries(inherited),
    timeout: NPM_LIMIT_MS,
  });
}
