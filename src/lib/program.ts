/** Where the files of this program are, in a checkout, a package and an image alike. */
import { findPackageJSON } from 'node:module';
import { dirname, join } from 'node:path';

const MANIFEST = findPackageJSON(import.meta.url);
if (MANIFEST === undefined) throw new Error('the package.json of mrtr-gateway is missing');

/** The path of its package.json. */
export const MANIFEST_FILE: string = MANIFEST;

/** The path of its command. */
export const COMMAND_FILE: string = join(dirname(MANIFEST), 'bin', 'mrtr-gateway.js');
