/** Writes a file in one step: whoever reads it meanwhile sees the old one or the new one. */
import {
  chmod,
  chown,
  lstat,
  mkdir,
  readFile,
  realpath,
  rename,
  rm,
  stat,
  writeFile,
} from 'node:fs/promises';
import { dirname } from 'node:path';

/** The file is larger than any that a client writes. */
const MAX_BYTES = 8 * 1024 * 1024;
const NEW_MODE = 0o600;
const WRITABLE = 0o200;

export interface UserFile {
  /** Where it is, behind all links. */
  readonly path: string;
  /** `null` if there is no such file. */
  readonly text: string | null;
  readonly mode: number;
  /** Whose it is; `null` for that of this process. */
  readonly owner: { readonly uid: number; readonly gid: number } | null;
}

/** @throws Error if there is something else in its place, or it cannot be read, or is not to be changed */
export async function readUserFile(file: string): Promise<UserFile> {
  try {
    const path = await realpath(file);
    const stats = await stat(path);
    if (!stats.isFile()) throw new Error('it is not a regular file');
    // It could be replaced all the same.
    if ((stats.mode & WRITABLE) === 0) throw new Error('it is read-only');
    if (stats.size > MAX_BYTES) throw new Error(`it is larger than ${MAX_BYTES} bytes`);
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(
      await readFile(path),
    );
    const { uid, gid } = stats;
    return { path, text, mode: stats.mode & 0o777, owner: { uid, gid } };
  } catch (error) {
    if (!hasCode(error, 'ENOENT')) throw error;
    const link = await lstat(file).catch(() => null);
    if (link !== null) throw new Error('it is a link to a file that is missing', { cause: error });
    return { path: file, text: null, mode: NEW_MODE, owner: null };
  }
}

/** @throws Error if it was changed since it was read */
export async function replace({ path, text, mode, owner }: UserFile, next: string): Promise<void> {
  const folder = dirname(path);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  // Of a fixed name, so that only one program at a time writes it.
  const temporary = `${path}.mrtr-gateway.tmp`;
  try {
    await writeFile(temporary, next, { flag: 'wx', mode, flush: true });
    if (owner !== null) await chown(temporary, owner.uid, owner.gid);
    // The mask of the process does not count.
    await chmod(temporary, mode);
    const now = await readUserFile(path);
    if (now.text !== text) throw new Error('it was changed meanwhile; try again');
    await rename(temporary, path);
  } catch (error) {
    if (hasCode(error, 'EEXIST')) {
      const problem = `another "connect" is writing it, or was interrupted: then remove ${temporary}`;
      throw new Error(problem, { cause: error });
    }
    await rm(temporary, { force: true });
    throw error;
  }
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}
