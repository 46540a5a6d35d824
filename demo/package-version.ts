/** Which version of a package is installed here. */
import { readFileSync } from 'node:fs';
import { isJsonObject } from '../src/protocol/json.ts';

export function packageVersion(name: string): string {
  const file = new URL(`../node_modules/${name}/package.json`, import.meta.url);
  const manifest: unknown = JSON.parse(readFileSync(file, 'utf8'));
  return isJsonObject(manifest) ? String(manifest['version']) : 'unknown';
}
