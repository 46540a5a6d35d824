/** This program: where its files are (in a checkout, a package and an image alike), its version, and why it could not start. */
import { readFileSync } from 'node:fs';
import { findPackageJSON } from 'node:module';
import { dirname, join } from 'node:path';

const MANIFEST = findPackageJSON(import.meta.url);
if (MANIFEST === undefined) throw new Error('the package.json of mrtr-gateway is missing');

/** The path of its command. */
export const COMMAND_FILE: string = join(dirname(MANIFEST), 'bin', 'mrtr-gateway.js');

const manifest: unknown = JSON.parse(readFileSync(MANIFEST, 'utf8'));

/** Its version, from its package.json. */
export const VERSION: string =
  typeof manifest === 'object' && manifest !== null && 'version' in manifest
    ? String(manifest.version)
    : 'unknown';

/** The variables of a process, by name. */
export type Environment = Readonly<Record<string, string | undefined>>;

export type StartFailureCode =
  | 'port_in_use'
  | 'address_unavailable'
  | 'not_permitted'
  | 'upstream_not_mcp'
  | 'upstream_refused'
  | 'redis_unavailable'
  /** A worker of another version than its primary. */
  | 'other_version';

/** Why the gateway could not start: one line with the cause and what to do. */
export class StartFailure extends Error {
  readonly code: StartFailureCode;

  constructor(code: StartFailureCode, message: string) {
    super(message);
    this.name = 'StartFailure';
    this.code = code;
  }
}
