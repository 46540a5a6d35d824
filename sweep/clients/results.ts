/** What the last runs found, as a file in the repository that docs/clients.md is made from. */
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { format, resolveConfig } from 'prettier';
import type { Behaviour } from './reading.ts';
import type { ServerKind } from './stage.ts';

const FILE = fileURLToPath(new URL('results.json', import.meta.url));

export interface Meeting extends Behaviour {
  /** It ended by itself in time. */
  readonly ended: boolean;
}

export interface Result {
  readonly name: string;
  readonly setting?: string;
  readonly version: string;
  /** Such as `2026-11-27`. */
  readonly date: string;
  readonly with: Readonly<Record<ServerKind, Meeting>>;
}

export function readResults(): Result[] {
  return JSON.parse(readFileSync(FILE, 'utf8')) as Result[];
}

/** Keeps the results of clients that are not among these. */
export async function keepResults(newer: readonly Result[]): Promise<Result[]> {
  const kept = readResults().filter(({ name, setting }) =>
    newer.every((result) => result.name !== name || result.setting !== setting),
  );
  const all = [...kept, ...newer];
  await writeFormatted(FILE, JSON.stringify(all));
  return all;
}

/** Writes a file as `npm run format` would leave it. */
export async function writeFormatted(path: string, text: string): Promise<void> {
  const options = { ...(await resolveConfig(path)), filepath: path };
  await writeFile(path, await format(text, options));
}
