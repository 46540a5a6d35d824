/** Writes a file in one step: whoever reads it meanwhile sees the old one or the new one. */
import { chmod, mkdir, readFile, realpath, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { randomId } from '../lib/crypto.ts';

/** The file is larger than any that a client writes. */
const MAX_BYTES = 8 * 1024 * 1024;
const NEW_MODE = 0o600;

export interface UserFile {
  /** Where it is, behind all links. */
  readonly path: string;
  /** `null` if there is no such file. */
  readonly text: string | null;
  readonly mode: number;
}

/** @throws Error if there is something else in its place, or it cannot be read */
export async function readUserFile(file: string): Promise<UserFile> {
  try {
    const path = await realpath(file);
    const stats = await stat(path);
    if (!stats.isFile()) throw new Error('it is not a regular file');
    if (stats.size > MAX_BYTES) throw new Error(`it is larger than ${MAX_BYTES} bytes`);
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(
      await readFile(path),
    );
    return { path, text, mode: stats.mode & 0o777 };
  } catch (error) {
    if (!isMissing(error)) throw error;
    return { path: file, text: null, mode: NEW_MODE };
  }
}

/** @throws Error if it was changed since it was read */
export async function replace({ path, text, mode }: UserFile, next: string): Promise<void> {
  const folder = dirname(path);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const temporary = `${path}.${randomId().slice(0, 8)}.tmp`;
  try {
    await writeFile(temporary, next, { flag: 'wx', mode, flush: true });
    // The mask of the process does not count.
    await chmod(temporary, mode);
    const now = await readUserFile(path);
    if (now.text !== text) throw new Error('it was changed meanwhile; try again');
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}
