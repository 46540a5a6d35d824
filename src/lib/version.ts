/** The version of this program, from its package.json. */
import { readFileSync } from 'node:fs';
import { MANIFEST_FILE } from './program.ts';

const manifest: unknown = JSON.parse(readFileSync(MANIFEST_FILE, 'utf8'));

export const VERSION: string =
  typeof manifest === 'object' && manifest !== null && 'version' in manifest
    ? String(manifest.version)
    : 'unknown';
