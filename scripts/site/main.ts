/** Builds the site of the documentation in the folder `site`: `npm run site`. */
import { relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { buildSite } from './build.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const out = `${root}site`;
const { pages } = await buildSite(root, out);
console.log(`Wrote ${pages.length} pages to ${relative(process.cwd(), out) || '.'}/.
Open ${pathToFileURL(`${out}/index.html`)}, or copy the folder to any static host.`);
